"""The embedded model as a checkpoint, and a server of SGLang with it."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "tiny-model" / "model"

# The stand-in for the kernels, in this process, too.
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "tests"))
os.environ.update(SGLANG_USE_CPU_ENGINE="1", HF_HUB_OFFLINE="1")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((MODEL / "tiny" / name).read_bytes())
    (folder / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    end = "<|endoftext|>"
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end, "pad_token": end}
    template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
    return folder


class Server:
    def __init__(self, url):
        self.url = url

    def post(self, path, body):
        """The status and the answer."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_up(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=30) as answer:
                return answer.status == 200
        except OSError:
            return False


@pytest.fixture(scope="session")
def server(checkpoint, tmp_path_factory):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = {
        "model-path": checkpoint,
        "port": port,
        "host": "127.0.0.1",
        "device": "cpu",
        "dtype": "float32",
        "attention-backend": "torch_native",
        "grammar-backend": "unskew",
        "max-total-tokens": 8192,
        "max-running-requests": 32,
        # Of all memory, of which other programs may take some while it starts; `max-total-tokens` is what it takes.
        "mem-fraction-static": 0.4,
        # Prompts in more than one piece.
        "chunked-prefill-size": 64,
        "log-level": "warning",
    }
    switches = ["--disable-overlap-schedule", "--disable-cuda-graph", "--skip-server-warmup", "--enable-custom-logit-processor"]
    command = [sys.executable, "-m", "sglang.launch_server", *switches]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "UNSKEW_COMPILE_SECONDS": "10"}
    log = tmp_path_factory.mktemp("log") / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    server = Server(f"http://127.0.0.1:{port}")
    try:
        begin = time.monotonic()
        while not server.is_up():
            assert process.poll() is None and time.monotonic() - begin < 600, log.read_text()[-4000:]
            time.sleep(0.5)
        print(f"SGLang was ready after {time.monotonic() - begin:.0f} s")
        yield server
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
