"""Time per output token of a vLLM server with unskew, beside the same server with vLLM's default backend.

    python serving.py --real FOLDER --wide tokenizer.json [--concurrency 1,8,32] [--rounds 2] [--tokens 40] [--record FILE]

In the environment of `cargo xtask engines vllm`. Two models: a real one of 49,152 ids (FOLDER: `cargo xtask engines` makes
`target/real/smollm2`), and a random Llama of 64 columns over a vocabulary of 128,256 ids (tokenizer.json: Llama 3's), whose own time is
next to nothing, so that what the plug-in does to a row is what is seen. Each has two servers up at once, one of them asked at a time, in
turns and back (A B B A), the same requests with the same seeds.

Masks are a long regex and a long array; `free` is a request without a constraint, on both servers, and so shows what the loaded processor
costs those who do not use it; walks are of mode `weights`, whose outputs are as long as asked for, and stand beside `free` of the default.
Milliseconds of a token are those between the first and the last token of each stream, and processor time of all the server's processes over
all tokens: on a machine that others use too, the second is the one to trust.
"""

import argparse
import http.client
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "engines"))

import live  # noqa: E402
import unskew  # noqa: E402

RECORDS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "ok": {"type": "boolean"}, "kind": {"enum": ["alpha", "beta", "gamma"]}},
        "required": ["id", "ok", "kind"],
        "additionalProperties": False,
    },
    "minItems": 200,
}
KINDS = {
    "free": {"ignore_eos": True},
    "regex": {"structured_outputs": {"regex": "[A-Za-z ,.]{2000,3000}"}},
    "json": {"structured_outputs": {"json": RECORDS}},
    "walks": {},
}
COMMON = ("--served-model-name", "m", "--max-model-len", "512", "--max-num-seqs", "32", "--enforce-eager", "--dtype", "float32")
OURS = ("--structured-outputs-config.backend", "unskew", "--logits-processors", "unskew.vllm:Faithful")


def wide(folder, tokenizer):
    """A random Llama over the vocabulary of a tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    hf = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer), eos_token="<|end_of_text|>", bos_token="<|begin_of_text|>")
    end = hf.eos_token_id
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(hf), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=1024, bos_token_id=hf.bos_token_id, eos_token_id=end, tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    hf.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": hf.bos_token_id, "eos_token_id": end}))
    return folder


def stream(server, body, out):
    """The times of a request's chunks, or what went wrong."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            out.append(answer.read().decode()[:300])
            return
        times = []
        while line := answer.readline():
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
        out.append(times)
    except (OSError, http.client.HTTPException) as error:
        out.append(repr(error))
    finally:
        connection.close()


def measure(server, kind, concurrency, tokens, reject_id, seed):
    """(milliseconds between tokens, processor milliseconds a token, tokens)."""
    body = {"model": "m", "prompt": "A list of records:\n", "max_tokens": tokens, "temperature": 1.0, "stream": True, **KINDS[kind]}
    if kind == "walks":
        wish = {"constraint": {"regex": "(.|\n){1,2000}"}, "mode": "weights", "reject_id": reject_id}
        body |= {"vllm_xargs": {"unskew": json.dumps(wish)}, "stop_token_ids": [reject_id], "top_p": 1, "top_k": 0}
    out, before = [], server.cpu()
    threads = [threading.Thread(target=stream, args=(server, {**body, "seed": seed + at}, out)) for at in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = server.cpu() - before
    wrong = [each for each in out if isinstance(each, str)]
    if wrong:
        raise SystemExit(f"{kind}: {wrong[0]}")
    written = sum(map(len, out))
    steps = [(times[-1] - times[0]) / (len(times) - 1) for times in out if len(times) > tokens // 4]
    return statistics.mean(steps) * 1000 if steps else float("nan"), used * 1000 / max(1, written), written


def compare(name, folder, options, say):
    compiler = unskew.Compiler(unskew.Tokenizer.from_file(folder / "tokenizer.json"))
    reject_id, ids = unskew.Faithful(compiler).reject_id, json.loads((folder / "config.json").read_text())["vocab_size"]
    logs = pathlib.Path(tempfile.mkdtemp())
    with (
        live.vllm(folder, logs / "unskew.log", *OURS, common=COMMON) as ours,
        live.vllm(folder, logs / "default.log", common=COMMON, environment={"VLLM_PLUGINS": ""}) as default,
    ):
        pairs = {"unskew": ours, "default": default}
        for kind in KINDS:
            # What is compiled once.
            for server in pairs.values():
                if kind != "walks" or server is ours:
                    measure(server, kind, 2, 8, reject_id, 0)
        say(f"\n{name}, rows of {ids:,} ids\n")
        say("| at once | | unskew, ms a token | default, ms a token | unskew, CPU ms a token | default, CPU ms a token | ratio of CPU |")
        say("|--:|:--|--:|--:|--:|--:|--:|")
        for concurrency in options.concurrency:
            found = {(kind, which): [] for kind in KINDS for which in pairs}
            for at in range(options.rounds):
                for kind in KINDS:
                    order = ["unskew", "default", "default", "unskew"] if kind != "walks" else ["unskew", "unskew"]
                    for turn, which in enumerate(order):
                        seed = 1000 * at + 100 * (turn // 2)
                        found[kind, which].append(measure(pairs[which], kind, concurrency, options.tokens, reject_id, seed))
            for kind in KINDS:
                one = found[kind, "unskew"]
                # Walks beside free tokens of a server without us.
                other = found["free" if kind == "walks" else kind, "default"]
                wall, cpu = (statistics.median(each[at] for each in one) for at in (0, 1))
                wall_other, cpu_other = (statistics.median(each[at] for each in other) for at in (0, 1))
                ratios = sorted(a[1] / b[1] for a in one for b in other)
                say(
                    f"| {concurrency} | {kind} | {wall:.1f} | {wall_other:.1f} | {cpu:.2f} | {cpu_other:.2f} "
                    f"| {cpu / cpu_other:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
                )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=pathlib.Path)
    parser.add_argument("--wide", type=pathlib.Path)
    parser.add_argument("--concurrency", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    if options.real is None and options.wide is None:
        parser.error("give --real, --wide or both")
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    import vllm

    say(
        f"vLLM {vllm.__version__}, unskew {unskew.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}; {options.rounds} rounds of {options.tokens} tokens, medians"
    )
    with tempfile.TemporaryDirectory() as folder:
        if options.wide is not None:
            compare("A random Llama", wide(pathlib.Path(folder) / "wide", options.wide), options, say)
        if options.real is not None:
            compare(options.real.name, options.real, options, say)
    if options.record is not None:
        options.record.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
