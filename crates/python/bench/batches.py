"""Masks for a batch of rows in one call, beside llguidance's executor and xgrammar's batch fill, and the cost of a call.

    pip install unskew llguidance xgrammar numpy     # xgrammar brings torch
    python batches.py --data MASKBENCH --tokenizer tokenizer.json [--record FILE]

Schemas are those of MaskBench's files of which all three engines accept a valid instance. Of each there are four matchers, at the
beginning and after a quarter, a half and three quarters of the instance. They walk along it together: a step appends a token to every
matcher, and then one call fills all rows. That call is timed, and all engines take it in turns. The states of the first round are new to
every engine; later rounds meet them again with new matchers. Matchers that come to the end of their instance begin again.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

import numpy as np

import unskew

ROWS = 256
COPIES = 4


class Unskew:
    name = "unskew"

    def __init__(self, tokenizer, threads):
        self.tokenizer, self.threads = unskew.Tokenizer.from_file(tokenizer), threads
        self.compiler = unskew.Compiler(self.tokenizer)
        self.mask = np.zeros((ROWS, self.tokenizer.mask_words), np.int32)

    def compile(self, schema):
        return self.compiler.compile(unskew.Constraint.json_schema(schema, any_order=True), timeout=30.0)

    def start(self, compiled):
        return unskew.Matcher(compiled)

    def accept(self, matcher, id):
        return matcher.accept(id)

    def fill(self, matchers):
        unskew.fill_batch(matchers, self.mask, threads=self.threads)


class Llguidance:
    name = "llguidance"

    def __init__(self, tokenizer, threads):
        import llguidance
        import llguidance.numpy

        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(pathlib.Path(tokenizer).read_text())
        self.executor = llguidance.LLExecutor(num_threads=threads)
        self.mask = llguidance.numpy.allocate_token_bitmask(ROWS, self.tokenizer.vocab_size)

    def compile(self, schema):
        grammar = self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self.library.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled):
        return compiled.deep_copy()

    def accept(self, matcher, id):
        return matcher.consume_token(id)

    def fill(self, matchers):
        pairs = [(matcher, row) for row, matcher in enumerate(matchers)]
        self.library.numpy.fill_next_token_bitmask_par(self.executor, pairs, self.mask)


class Xgrammar:
    name = "xgrammar"

    def __init__(self, tokenizer, threads):
        import tokenizers
        import xgrammar

        self.library = xgrammar
        backend = tokenizers.Tokenizer.from_file(str(tokenizer))
        vocabulary = backend.get_vocab(with_added_tokens=True)
        texts = [""] * (max(vocabulary.values()) + 1)
        for text, id in vocabulary.items():
            texts[id] = text
        known = unskew.Tokenizer.from_file(tokenizer)
        self.info = xgrammar.TokenizerInfo(
            texts, xgrammar.VocabType.BYTE_LEVEL, vocab_size=len(texts), stop_token_ids=known.eos
        )
        self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=threads)
        self.batch = xgrammar.BatchGrammarMatcher(max_threads=threads)
        self.mask = xgrammar.allocate_token_bitmask(ROWS, len(texts))

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)

    def start(self, compiled):
        return self.library.GrammarMatcher(compiled)

    def accept(self, matcher, id):
        return matcher.accept_token(id)

    def fill(self, matchers):
        self.batch.batch_fill_next_token_bitmask(matchers, self.mask)


def tasks(folder, engines, count):
    """Schemas with the ids of an instance that all engines accept, and what each engine compiled."""
    found, encoder = [], engines[0].tokenizer
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        case = json.loads(path.read_text())
        valid = [test["data"] for test in case["tests"] if test["valid"]]
        if not valid:
            continue
        try:
            ids = encoder.encode(json.dumps(valid[0], ensure_ascii=False))
            compiled = [engine.compile(case["schema"]) for engine in engines]
            # So long that the four places differ.
            if len(ids) < 16 or not all(accepts(*pair, ids) for pair in zip(engines, compiled)):
                continue
        except Exception:  # noqa: BLE001 - each engine has errors of its own
            continue
        found.append((ids, compiled))
        if len(found) == count:
            return found
    raise SystemExit(f"only {len(found)} schemas of {folder} go with all engines")


def accepts(engine, compiled, ids):
    matcher = engine.start(compiled)
    return all(engine.accept(matcher, id) for id in ids)


def walk(engines, cases, steps):
    """For each step and engine, the seconds of its call: of the clock, and of processors."""
    places = [(case, copy * len(cases[case][0]) // COPIES) for case in range(len(cases)) for copy in range(COPIES)]

    def begin(at, case, place):
        matcher = engines[at].start(cases[case][1][at])
        for id in cases[case][0][:place]:
            assert engines[at].accept(matcher, id)
        return matcher

    matchers = [[begin(at, *place) for place in places] for at in range(len(engines))]
    times = []
    for step in range(steps):
        # In turns, so that no engine always comes after the same one.
        for at in sorted(range(len(engines)), key=lambda at: (at + step) % len(engines)):
            start, worked = time.perf_counter(), time.process_time()
            engines[at].fill(matchers[at])
            times.append((engines[at].name, time.perf_counter() - start, time.process_time() - worked))
        for row, (case, place) in enumerate(places):
            ids = cases[case][0]
            if place == len(ids):
                places[row] = (case, 0)
                for at in range(len(engines)):
                    matchers[at][row] = begin(at, case, 0)
                continue
            places[row] = (case, place + 1)
            for at in range(len(engines)):
                assert engines[at].accept(matchers[at][row], ids[place])
    return times


def best(call, number, rounds=9):
    """The least mean of some rounds, in nanoseconds of this process: other work on the machine only adds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(number):
            call()
        found.append((time.process_time() - start) / number)
    return min(found) * 1e9


def calls(tokenizer):
    """The nanoseconds of single calls, in a vocabulary of one word and in this one."""
    one_word = unskew.Tokenizer.from_vocabulary([bytes([byte]) for byte in range(31)] + ["<end>"], eos=[31])
    answers = []
    for name, tok, pattern in [("32 ids", one_word, "[\\x00-\\x05]*"), (f"{tokenizer.vocab_size:,} ids", tokenizer, "[a-z]*")]:
        matcher = unskew.Matcher(unskew.Compiler(tok).compile(unskew.Constraint.regex(pattern)))
        mask = np.zeros((4, tok.mask_words), np.int32)
        rows = unskew.Rows(mask, tok.mask_words)
        other = mask[0].copy()
        id = matcher.validate([2]) and 2 or tok.encode("a")[0]

        def there_and_back(matcher=matcher, id=id):
            matcher.accept(id)
            matcher.rollback(1)

        answers.append(
            (
                name,
                best(lambda: matcher.fill(mask, 1), 5000),  # noqa: B023
                best(lambda: matcher.fill(rows, 1), 5000),  # noqa: B023
                best(lambda: np.copyto(mask[1], other), 5000),  # noqa: B023
                best(matcher.is_accepting, 20000),
                best(there_and_back, 5000),
            )
        )
    return answers


def host():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"Machine: {cpu}, {os.cpu_count()} cores, load at the end {load}; Python {platform.python_version()}. Commit: {commit.stdout.strip()}."


def versions():
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("unskew", "llguidance", "xgrammar", "numpy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the folder of MaskBench's files")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json with byte-level tokens")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--record", help="the file of the report")
    options = parser.parse_args()
    engines = [engine(options.tokenizer, options.threads) for engine in (Unskew, Llguidance, Xgrammar)]
    cases = tasks(options.data, engines, ROWS // COPIES)
    lines = [
        f"# Masks of a batch from Python, {time.strftime('%Y-%m-%d')}",
        "",
        "",
        "Command: `python crates/python/bench/batches.py --data ... --tokenizer ... --record`.",
        "",
        f"{len(cases)} schemas of MaskBench with {COPIES} matchers each: {ROWS} rows of {engines[0].tokenizer.vocab_size:,} ids, "
        f"{options.threads} threads, {versions()}. Every step appends a token to all matchers and fills all rows in one call, which is",
        "timed; the engines take turns. `new` are the states of the first round, `seen` those of later rounds, with new matchers. Times are those of",
        "the clock, which other work on the machine lengthens, and of the process: the work of all of its threads together.",
        "",
        "| microseconds of a call | n | clock: least | p50 | p90 | process: least | p50 | p90 | p50 / unskew: clock, process |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rounds = [walk(engines, cases, options.steps) for _ in range(options.rounds)]
    for kind, some in (("new", rounds[:1]), ("seen", rounds[1:])):
        medians = {}
        for engine in engines:
            of_engine = [times[1:] for round in some for times in round if times[0] == engine.name]
            cells = []
            for clock in zip(*of_engine):
                micro = sorted(seconds * 1e6 for seconds in clock)
                cells += [micro[0], statistics.median(micro), micro[int(0.9 * (len(micro) - 1))]]
            medians[engine.name] = (cells[1], cells[4])
            ratios = ", ".join(f"{own / unskews:.1f}" for own, unskews in zip(medians[engine.name], medians["unskew"]))
            numbers = " | ".join(f"{cell:,.0f}" for cell in cells)
            lines.append(f"| {engine.name}, {kind} | {len(of_engine)} | {numbers} | {ratios} |")
    source, target = np.zeros_like(engines[0].mask), engines[0].mask
    copy = best(lambda: np.copyto(target, source), 50) / 1e3
    lines += [
        "",
        f"Copying {ROWS} rows alone: {copy:,.0f} µs.",
        "",
        "Single calls on one thread, in nanoseconds, the least mean of nine rounds. With 32 ids, nearly all is the call.",
        "",
        "| vocabulary | `fill` into numpy | `fill` into `Rows` | numpy's copy of a row | `is_accepting` | `accept` and `rollback` |",
        "|---|--:|--:|--:|--:|--:|",
        *(f"| {name} | " + " | ".join(f"{value:,.0f}" for value in values) + " |" for name, *values in calls(engines[0].tokenizer)),
    ]
    lines[2] = host()
    report = "\n".join(lines) + "\n"
    print(report)
    if options.record:
        pathlib.Path(options.record).write_text(report)


if __name__ == "__main__":
    main()
