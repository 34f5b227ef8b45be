"""XGrammar as a peer of `cargo xtask bench maskbench`, by its package: `--peers xgrammar` starts this program.

    pip install xgrammar tokenizers numpy     # xgrammar brings torch or runs with numpy

The bench sends the path of a schema in a line, and this worker answers with a line of JSON, as the other workers do. The
schema is compiled once. Each instance is encoded by the tokenizer and walked with a matcher of its own. The time of a mask
and of taking a token is that of the package's calls. A call from Python takes about a microsecond of it.

The options are those of MaskBench's own engine for XGrammar where it is to be compliant: white space is free, and objects
are as open as their schemas are.
"""

import argparse
import contextlib
import json
import resource
import sys
import time

import tokenizers
import xgrammar


def resident(field):
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


class Worker:
    def __init__(self, options):
        self.now = time.process_time_ns if options.cpu_time else time.perf_counter_ns
        self.tokenizer = tokenizers.Tokenizer.from_file(options.tokenizer)
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        texts = [""] * (max(vocabulary.values()) + 1)
        for text, id in vocabulary.items():
            texts[id] = text
        self.count = len(texts)
        with open(options.tokenizer) as file:
            added = json.load(file)["added_tokens"]
        ends = [token["id"] for token in added if token["content"] in ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>")]
        info = xgrammar.TokenizerInfo(
            texts, xgrammar.VocabType.BYTE_LEVEL, vocab_size=self.count, stop_token_ids=ends
        )
        # One thread, as the other engines have, and no schema is known from before.
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, self.count)
        # The first schema pays for tables of the vocabulary.
        self.compiler.compile_json_schema('{"const": "a"}')

    def measure(self, path):
        with open(path, encoding="utf-8") as file:
            case = json.load(file)
        samples = [
            (test["valid"], self.tokenizer.encode(json.dumps(test["data"], ensure_ascii=False), add_special_tokens=False).ids)
            for test in case.get("tests", [])
        ]
        schema = json.dumps(case["schema"])
        begin = self.now()
        try:
            compiled = self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)
            matcher = xgrammar.GrammarMatcher(compiled)
        except Exception as error:  # What the package raises is its answer, whatever it is.
            return {"refused": str(error)[:500], "compile": 0, "first": 0, "walks": [], "slow": []}
        compile = self.now() - begin
        begin = self.now()
        matcher.fill_next_token_bitmask(self.mask)
        first = self.now() - begin
        walks = []
        for valid, ids in samples:
            walks.append(self.walk(xgrammar.GrammarMatcher(compiled), valid, ids))
        return {"refused": None, "compile": compile, "first": first, "walks": walks, "slow": []}

    def walk(self, matcher, valid, ids):
        walk = {"valid": valid, "tokens": len(ids), "refused_at": None, "steps": [], "inconsistent": False}
        words = self.mask[0]
        for position, id in enumerate(ids):
            begin = self.now()
            matcher.fill_next_token_bitmask(self.mask)
            filled = self.now() - begin
            allowed = bool(int(words[id // 32]) >> id % 32 & 1)
            taken, accepted = 0, False
            if allowed:
                begin = self.now()
                accepted = matcher.accept_token(id)
                taken = self.now() - begin
            walk["steps"].append((filled, taken))
            if not accepted:
                walk["inconsistent"] = allowed
                walk["refused_at"] = position
                return walk
        if not matcher.is_completed():
            walk["refused_at"] = len(ids)
        return walk


def main():
    parser = argparse.ArgumentParser(description="XGrammar as a worker of the bench")
    parser.add_argument("suite", choices=["maskbench"])
    parser.add_argument("--worker", choices=["xgrammar"], required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    worker = Worker(options)
    answers = sys.stdout
    sys.stdout = sys.stderr
    ready = {"name": "xgrammar", "tokens": worker.count, "resident": resident("VmRSS:")}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        try:
            outcome = {"Ok": worker.measure(line.rstrip("\n"))}
        except Exception as error:
            outcome = {"Err": f"{type(error).__name__}: {error}"}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"outcome": outcome, "peak": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main()
