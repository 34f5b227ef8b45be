"""Who should end an output: the model or the constraint? Both targets beside what a model writes when nothing constrains it.

    python ends.py --unskew target/release/unskew --chat FOLDER [--plain FOLDER] [--samples 100] [--record FILE]

Each task has some questions with a key. For each question four distributions over answers are drawn by the command line, at temperature 1:

- *written*: the first answer in the model's free text, of up to 40 tokens: the first match of the constraint, not inside of a word;
- `model` and `free`: outputs of `cars` under `--end model` and `--end free`;
- *masked*: outputs of masks under each.

The table has the total variation between each and *written*, how often each is the key, the positions of an output of `cars`, and what masks
cost: KL(masked || target) in nats, as log P(constraint) less the mean log-weight of masked outputs. A model without a chat template
(`--plain`) is asked by three examples in front.
"""

import argparse
import collections
import math
import pathlib
import re
import statistics

from tasks import TASKS, Program, variation

def shares(answers):
    counts = collections.Counter(answers)
    return {answer: count / len(answers) for answer, count in counts.items()}


def plain(text):
    """JSON without the spaces that models write or not."""
    return re.sub(r'([:,]) (?=")|([:,]) (?=[0-9])', lambda match: (match[1] or match[2]), text)


def ask(program, samples, task, question, key, seed):
    def draw(sampler, task, end):
        more = ["--sampler", sampler, "-n", str(samples), "--max-tokens", "40", "--seed", str(seed), "--batch", "32"]
        return program.run("generate", task, question, [*more, *(["--end", end] if task else [])])[0]

    written = draw("masked", None, None)
    found = [re.search(rf"(?<!\w)(?:{task.written})(?!\w)", output["text"]) for output in written]
    found = [plain(match[0]) for match in found if match]
    row = {"written": len(found) / max(1, len(written)), "written, key": found.count(plain(key)) / max(1, len(found))}
    for end in ("model", "free"):
        exact = draw("cars", task, end)
        masked = draw("masked", task, end)
        masked = [output for output in masked if output["finish"] == "stop"]
        if not exact:
            continue
        of_exact, of_masked = (shares([plain(output["text"]) for output in outputs]) for outputs in (exact, masked))
        row[end, "positions"] = sum(output["lm_calls"] for output in exact) / len(exact)
        row[end, "key"] = of_exact.get(plain(key), 0)
        # Probabilities of outputs are those of their token sequences; the mass is the mean weight of masks.
        weights = [output["log_weight"] for output in masked]
        top = max(weights)
        log_mass = top + math.log(sum(math.exp(weight - top) for weight in weights) / len(weights))
        row[end, "mass"], row[end, "KL"] = log_mass, max(0.0, log_mass - statistics.mean(weights))
        if found:
            row[end, "TV"], row[end, "masked, TV"] = (variation(of, shares(found)) for of in (of_exact, of_masked))
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unskew", required=True)
    parser.add_argument("--chat", action="append", default=[])
    parser.add_argument("--plain", action="append", default=[])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--tasks", help="a part of the names of tasks")
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    for folder, chat in [*((folder, True) for folder in options.chat), *((folder, False) for folder in options.plain)]:
        program = Program(options.unskew, folder, chat)
        say(f"\n{pathlib.Path(folder).name}, {options.samples} outputs of each kind to each question\n")
        say("| task | has an answer | TV to written: model, free | masked: model, free | key: written, model, free | P(constraint): model, free "
            "| KL of masks: model, free | positions of cars: model, free |")
        say("|:--|--:|--:|--:|--:|--:|--:|--:|")
        for task in TASKS:
            if task.written is None or options.tasks and options.tasks not in task.name:
                continue
            rows = [ask(program, options.samples, task, question, key, seed) for seed, (question, key) in enumerate(task.questions)]

            def mean(key, rows=rows):
                values = [row[key] for row in rows if key in row]
                return statistics.mean(values) if values else float("nan")

            def both(kind, form=".2f"):
                return ", ".join(format(mean((end, kind)), form) for end in ("model", "free"))

            mass = ", ".join(f"{math.exp(mean((end, 'mass'))):.2g}" for end in ("model", "free"))
            say(f"| {task.name} | {mean('written'):.2f} | {both('TV')} | {both('masked, TV')} | {mean('written, key'):.2f}, {both('key')} "
                f"| {mass} | {both('KL')} | {both('positions', '.1f')} |")
    if options.record:
        options.record.write_text("\n".join(lines).lstrip() + "\n")


if __name__ == "__main__":
    main()
