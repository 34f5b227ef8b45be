"""Servers of engines for tests: one process group each, on a port that the server itself has bound, and plain HTTP.

A test that looks for a free port and hands its number on loses it to another program now and then. A server that binds port 0 would tell
the number in its log alone, and vLLM and SGLang give theirs to other processes before. So the port is kept: it is bound here with
SO_REUSEPORT until the server listens, and both engines bind with that option or SO_REUSEADDR beside a socket that does not listen.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

#: Seconds that a server may take to start: some of them import torch in seven processes, on two cores.
START = 900


@contextlib.contextmanager
def reserved():
    """A port that no other program is given meanwhile."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


class Server:
    """A server as a program: its arguments without the port, its environment beside that of this process, and the file of its log."""

    def __init__(self, command, log, environment=None, health="/health", wait=START):
        self.log = log
        with reserved() as self.port:
            self.url = f"http://127.0.0.1:{self.port}"
            with open(log, "w") as out:
                self.process = subprocess.Popen(
                    [*map(str, command), "--host", "127.0.0.1", "--port", str(self.port)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, **(environment or {})},
                    # A session of its own, with all of its processes.
                    start_new_session=True,
                )
            began = time.monotonic()
            while self.ask("GET", health, timeout=5)[0] != 200:
                if self.process.poll() is not None or time.monotonic() - began > wait:
                    self.close()
                    raise RuntimeError(f"the server did not start:\n{self.tail(4000)}")
                time.sleep(0.5)
            self.started = time.monotonic() - began

    def ask(self, method, path, body=None, timeout=120.0):
        """(status, text); status 0 and why, where the connection breaks or the time is over."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return 0, f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    def post(self, path, body, timeout=300.0):
        """(status, answer): what a good answer holds, and the text of another one."""
        status, text = self.ask("POST", path, body, timeout)
        return status, json.loads(text) if status == 200 else text

    def leave(self, path, body, after):
        """A client that sends a request and goes after so many seconds. Whether it could send it."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
                connection.sendall(head + data)
                time.sleep(after)
            return True
        except OSError:
            return False

    def is_up(self, timeout=60.0):
        return self.process.poll() is None and self.ask("GET", "/health", timeout=timeout)[0] == 200

    def metric(self, name):
        """The sum of a metric over its labels."""
        return sum(float(line.split()[-1]) for line in self.ask("GET", "/metrics")[1].splitlines() if line.startswith((f"{name}{{",
            f"{name} ")))

    def processes(self):
        """The ids of all processes of the server."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stat:
                    # After the name, which may hold anything: the state, the parent, the group, the session.
                    if int(stat.read().rpartition(")")[2].split()[3]) == self.process.pid:
                        found.append(int(name))
        return found

    def resident(self):
        """The memory of all processes of the server, in MiB."""
        pages = 0
        for pid in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as statm:
                pages += int(statm.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    def cpu(self):
        """Seconds of processor time that all processes of the server have used."""
        ticks = 0
        for pid in self.processes():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def tail(self, most=3000):
        with open(self.log, errors="replace") as log:
            return log.read()[-most:]

    def close(self):
        for how in (signal.SIGTERM, signal.SIGKILL):
            # Processes of the server alone are in this group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            deadline = time.monotonic() + 5
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


#: vLLM on a processor, as docs/vllm.md starts it.
VLLM = (
    "--served-model-name", "m", "--max-model-len", "256", "--max-num-seqs", "32", "--enforce-eager", "--dtype", "float32",
    "--structured-outputs-config.backend", "unskew", "--logits-processors", "unskew.vllm:Faithful",
)


def vllm(model, log, *more, common=VLLM, environment=None):
    """A server of vLLM."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, *common, *more]
    own = {"VLLM_PLUGINS": "unskew", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "2"}
    return Server(command, log, {**own, **(environment or {})})


def sglang(model, log, *more, environment=None):
    """A server of SGLang on a processor, with its scheduler as it is by default: the next batch is begun before the last one is read."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sglang")
    command = [
        sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--device", "cpu", "--dtype", "float32",
        "--attention-backend", "torch_native",
        "--grammar-backend", "unskew", "--enable-custom-logit-processor", "--disable-cuda-graph", "--skip-server-warmup",
        "--max-total-tokens", "8192",
        "--max-running-requests", "32", "--mem-fraction-static", "0.3", "--chunked-prefill-size", "64", "--log-level", "warning", *more,
    ]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])), "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1"}
    return Server(command, log, {**own, **(environment or {})})


def tiny(folder):
    """The embedded model with the files that engines look for, in a new folder."""
    import pathlib
    import shutil

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = pathlib.Path(__file__).resolve().parents[2] / "tiny-model" / "model"
    for path in (model / "tokenizer.json", model / "tiny" / "config.json", model / "tiny" / "model.safetensors"):
        shutil.copy(path, folder)
    end = "<|endoftext|>"
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end, "pad_token": end, "model_max_length": 512,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}\n{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text('{"bos_token_id": 0, "eos_token_id": 0}')
    return folder
