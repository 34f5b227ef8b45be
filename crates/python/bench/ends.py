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
import json
import math
import pathlib
import re
import statistics
import subprocess
import tempfile

SENTIMENT = ["positive", "negative", "neutral"]
TOPICS = ["Sports", "Science", "Politics", "Business", "Music"]
CALL = {
    "type": "object",
    "properties": {"name": {"const": "get_weather"}, "city": {"enum": ["Paris", "Berlin", "Tokyo", "Madrid"]}, "unit": {"enum": ["C", "F"]}},
    "required": ["name", "city", "unit"],
    "additionalProperties": False,
}
RECORD = '\\{"name": "[A-Z][a-z]{1,11}", "age": [1-9][0-9]\\}'

#: (task, the constraint's options, a pattern of its outputs, [(question, key)])
TASKS = [
    ("sentiment, 3 labels", SENTIMENT, "|".join(SENTIMENT), [
        ("Is this review positive, negative or neutral? Answer with one word.\n\nI loved this film, every minute of it.", "positive"),
        ("Is this review positive, negative or neutral? Answer with one word.\n\nA waste of money. It broke after a day.", "negative"),
        ("Is this review positive, negative or neutral? Answer with one word.\n\nThe food was awful and the waiter rude.", "negative"),
    ]),
    ("yes or no", ["Yes", "No"], "Yes|No", [
        ("Is the sky blue on a clear day? Answer with Yes or No.", "Yes"),
        ("Is the Earth flat? Answer with Yes or No.", "No"),
        ("Do fish live in water? Answer with Yes or No.", "Yes"),
    ]),
    ("topic, 5 labels", TOPICS, "|".join(TOPICS), [
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nTeam wins the cup in the last minute", "Sports"),
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nShares of the bank fall by a tenth", "Business"),
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nTelescope finds a new planet", "Science"),
    ]),
    ("multiple choice", list("ABCD"), "[ABCD]", [
        ("Which planet is the largest? A: Jupiter. B: Mars. C: Earth. D: Venus. Answer with one letter.", "A"),
        ("What is the capital of France? A: Rome. B: Paris. C: Madrid. D: Berlin. Answer with one letter.", "B"),
        ("Which animal barks? A: cat. B: cow. C: dog. D: fish. Answer with one letter.", "C"),
    ]),
    ("a number", "[0-9]{1,4}", "[0-9]{1,4}", [
        ("What is 7 plus 5? Answer with the number alone.", "12"),
        ("How many days has a week? Answer with the number alone.", "7"),
        ("How many legs has a spider? Answer with the number alone.", "8"),
    ]),
    ("a date", "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{4}-[0-9]{2}-[0-9]{2}", [
        ("On which day did the first man land on the moon? Answer with the date as YYYY-MM-DD, such as 1999-12-31.", "1969-07-20"),
        ("Write the date 5 March 2021 as YYYY-MM-DD, such as 1999-12-31.", "2021-03-05"),
    ]),
    ("a phone number", "\\([0-9]{3}\\) [0-9]{3}-[0-9]{4}", "\\([0-9]{3}\\) [0-9]{3}-[0-9]{4}", [
        ("Copy the phone number: call me at (555) 010-4477 after six.", "(555) 010-4477"),
        ("Which phone number is in this text? Our office has the number (212) 555-0199.", "(212) 555-0199"),
    ]),
    ("a tool call", CALL, '\\{"name": ?"get_weather", ?"city": ?"(?:Paris|Berlin|Tokyo|Madrid)", ?"unit": ?"[CF]"\\}', [
        ('Call the tool for the weather in Tokyo in Celsius. Answer with JSON alone, like {"name": "get_weather", "city": "Paris", "unit": "F"}.',
         '{"name": "get_weather", "city": "Tokyo", "unit": "C"}'),
    ]),
    ("a record", RECORD, RECORD, [
        ('Write the person as JSON, like {"name": "Anna", "age": 27}: Peter is 41 years old.', '{"name": "Peter", "age": 41}'),
        ('Write the person as JSON, like {"name": "Anna", "age": 27}: Maria is 35 years old.', '{"name": "Maria", "age": 35}'),
    ]),
]
EXAMPLES = "Question: What colour is grass? Answer with one word.\nAnswer: green\n\nQuestion: What is 3 plus 4? Answer with the number alone.\nAnswer: 7\n\n"


class Model:
    def __init__(self, program, folder, chat, samples):
        self.program, self.folder, self.chat, self.samples = program, folder, chat, samples

    def draw(self, question, sampler, constraint, end, tokens, seed):
        # A word that is written freely brings its own space.
        prompt = question if self.chat else f"{EXAMPLES}Question: {question}\nAnswer:{'' if constraint is None else ' '}"
        command = [self.program, "generate", "--model", self.folder, "--prompt", prompt, "--sampler", sampler, "-n", str(self.samples)]
        command += ["--max-tokens", str(tokens), "--seed", str(seed), "--format", "json", "--batch", "32", *(["--chat"] if self.chat else [])]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            if isinstance(constraint, list):
                command += [part for choice in constraint for part in ("--choice", choice)]
            elif isinstance(constraint, dict):
                json.dump(constraint, file)
                file.flush()
                command += ["--json-schema", file.name, "--with", "whitespace=spaced"]
            elif constraint is not None:
                command += ["--regex", constraint]
            if constraint is not None:
                command += ["--end", end]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"text"')]


def shares(answers):
    counts = collections.Counter(answers)
    return {answer: count / len(answers) for answer, count in counts.items()}


def variation(one, other):
    return 0.5 * sum(abs(one.get(answer, 0) - other.get(answer, 0)) for answer in {*one, *other})


def plain(text):
    """JSON without the spaces that models write or not."""
    return re.sub(r'([:,]) (?=")|([:,]) (?=[0-9])', lambda match: (match[1] or match[2]), text)


def ask(model, task, question, key, seed):
    _, constraint, pattern, _ = task
    written = model.draw(question, "masked", None, None, 40, seed)
    found = [re.search(rf"(?<!\w)(?:{pattern})(?!\w)", output["text"]) for output in written]
    found = [plain(match[0]) for match in found if match]
    row = {"written": len(found) / max(1, len(written)), "written, key": found.count(plain(key)) / max(1, len(found))}
    for end in ("model", "free"):
        exact = model.draw(question, "cars", constraint, end, 40, seed)
        masked = model.draw(question, "masked", constraint, end, 40, seed)
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
        model = Model(options.unskew, folder, chat, options.samples)
        say(f"\n{pathlib.Path(folder).name}, {options.samples} outputs of each kind to each question\n")
        say("| task | has an answer | TV to written: model, free | masked: model, free | key: written, model, free | P(constraint): model, free "
            "| KL of masks: model, free | positions of cars: model, free |")
        say("|:--|--:|--:|--:|--:|--:|--:|--:|")
        for task in TASKS:
            if options.tasks and options.tasks not in task[0]:
                continue
            rows = [ask(model, task, question, key, seed) for seed, (question, key) in enumerate(task[3])]

            def mean(key, rows=rows):
                values = [row[key] for row in rows if key in row]
                return statistics.mean(values) if values else float("nan")

            def both(kind, form=".2f"):
                return ", ".join(format(mean((end, kind)), form) for end in ("model", "free"))

            mass = ", ".join(f"{math.exp(mean((end, 'mass'))):.2g}" for end in ("model", "free"))
            say(f"| {task[0]} | {mean('written'):.2f} | {both('TV')} | {both('masked, TV')} | {mean('written, key'):.2f}, {both('key')} "
                f"| {mass} | {both('KL')} | {both('positions', '.1f')} |")
    if options.record:
        options.record.write_text("\n".join(lines).lstrip() + "\n")


if __name__ == "__main__":
    main()
