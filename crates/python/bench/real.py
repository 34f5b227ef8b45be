"""What masks do to real models: P(constraint), divergences, the most probable answer and costs, on tasks with chat prompts.

    python real.py --unskew target/release/unskew --model FILE.gguf [--base] [--judge FOLDER] [--samples 100] [--record FILE]

Each task of `tasks.py` is asked under both ends. The command line audits masked sampling, masks in the tokenizer's own spelling (`canonical`),
ASAp, twist, DISC and CARS, and draws from the model of the file. Where the constraint is a list of texts, the target is computed by
`Judge`: transformers with the weights of FOLDER read all that the model can write, by the law of `docs/ends.md` over bytes, in code that
shares nothing with ours. Elsewhere the target is made of all outputs that any sampler gave, by their probabilities.

KL and TV of masks are by the weights of masked outputs and P(constraint), over sequences of tokens. TV and KL of texts compare texts that are
too rare for so many outputs together. The first output's positions are those of the prompt too. A model without a chat template (`--base`) is
asked by two examples in front.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics
import time

from tasks import TASKS, Program, variation

SAMPLERS = {"free": ["masked", "asap", "twist", "disc", "cars"], "model": ["masked", "cars"]}


def byte_texts(tokenizer):
    """The bytes of each id; None of special tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(sorted({*range(256)} - {*printable}))}
    vocabulary, added = tokenizer.get_vocab(), tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(token for token, one in added.items() if one.special)}
    by_letters = "Ġ" in "".join(vocabulary)
    texts = {}
    for text, token in vocabulary.items():
        if token in special:
            texts[token] = None
        elif by_letters and all(letter in letters for letter in text):
            texts[token] = bytes(letters[letter] for letter in text)
        elif text.startswith("<0x") and len(text) == 6:
            texts[token] = bytes([int(text[3:5], 16)])
        else:
            texts[token] = text.replace("▁", " ").encode()
    return texts


def is_word(text):
    """Whether a word goes on with the first character of `text`, bytes that may end inside of a character."""
    for size in range(1, min(4, len(text)) + 1):
        try:
            char = text[:size].decode()
        except UnicodeDecodeError:
            continue
        return char.isalnum() or char == "_"
    return True


class Judge:
    """The law of a list of texts under a model, by transformers."""

    def __init__(self, folder):
        import torch
        import transformers

        self.torch = torch
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.texts = byte_texts(self.tokenizer)
        ends = self.model.generation_config.eos_token_id
        self.ends = set(ends if isinstance(ends, list) else [ends])

    def ids(self, prompt, chat):
        if not chat:
            return self.tokenizer(prompt)["input_ids"]
        messages = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def law(self, prompt, choices, end, least=1e-7):
        """P(text) of each choice. Prefixes below `least` of the model's mass are left out."""
        choices = [choice.encode() for choice in choices]
        prefixes = {choice[:cut] for choice in choices for cut in range(len(choice) + 1)}
        mass = collections.Counter()
        open_now = [(b"", [], 1.0)]
        while open_now:
            text, ids, p = open_now.pop()
            with self.torch.no_grad():
                row = self.model(self.torch.tensor([prompt + ids])).logits[0, -1].double().softmax(-1)
            for token in (row * p > least * 1e-3).nonzero()[:, 0].tolist():
                q = p * float(row[token])
                more = self.texts.get(token)
                if token in self.ends or more is None:
                    if text in choices and (end == "free" or token in self.ends):
                        mass[text] += q
                    continue
                longer = text + more
                if longer in prefixes:
                    if end == "free" and longer in choices and not any(other != longer and other.startswith(longer) for other in choices):
                        mass[longer] += q
                    elif q > least:
                        open_now.append((longer, [*ids, token], q))
                elif end == "free":
                    cut = max(cut for cut in range(len(text), len(longer)) if longer[:cut] in prefixes)
                    is_cut = cut > len(text) and is_word(longer[cut - 1 : cut]) and is_word(longer[cut:])
                    if longer[:cut] in choices and not is_cut:
                        mass[longer[:cut]] += q
        return {text.decode(): p for text, p in mass.items()}


def divergence(shares, target):
    return sum(p * math.log(p / target[text]) if text in target else math.inf for text, p in shares.items() if p > 0)


def top(shares):
    return max(shares, key=shares.get) if shares else None


def shown(text, question_key):
    """Whether an answer is the key; JSON is compared by its value."""
    try:
        return json.loads(text) == json.loads(question_key)
    except (json.JSONDecodeError, TypeError):
        return text == question_key


def ask(program, judge, task, question, key, end, samples, seed, limit):
    """The rows of one question: by sampler, what was measured."""
    most = ["--samples", str(samples), "--max-tokens", "64", "--seed", str(seed), "--batch", "32", "--end", end, "--time-limit", str(limit)]
    lines, said = program.run("audit", task, question, [*most, "--samplers", ",".join(SAMPLERS[end])])
    if not lines:
        raise SystemExit(f"{task.name}: {said}")
    exact = None
    if judge is not None and task.kind == "choices":
        law = judge.law(judge.ids(program.prompt(question), program.chat), task.constraint, end)
        exact = sum(law.values()), {text: p / sum(law.values()) for text, p in law.items()}
    if task.kind != "set":
        spelled, _ = program.run("audit", task, question, [*most, "--samplers", "masked,cars", "--canonical"])
        lines += [{**line, "label": "canonical"} for line in spelled if line["label"] == "masked"]
    by_label = {line["label"]: line for line in lines}
    mass = exact[0] if exact else by_label["cars"].get("mass")
    target = exact[1] if exact else dict(by_label["cars"]["most_probable"])
    rows = {}
    for label, line in by_label.items():
        shares = dict(line["most_frequent"])
        if not line["samples"]:
            rows[label] = {"error": line.get("error")}
            continue
        rows[label] = {
            "tv": variation(shares, target) if exact else line["tv_text"],
            "kl_text": divergence(shares, target) if exact else line["kl_text"],
            "noise": (len(target) - 1) / (2 * line["samples"]) if exact else line["kl_text_noise"],
            "kl": line.get("kl_by_weights"),
            "tv_tokens": line.get("tv_by_weights"),
            "changed": top(shares) != top(target),
            "key": sum(p for text, p in shares.items() if shown(text, key)),
            "positions": line["lm_calls_per_sample"],
            "first": line["lm_calls_first"],
            "last": line["lm_calls_last"],
            "error": line.get("error"),
            "samples": line["samples"],
        }
    return {
        "mass": mass,
        "told": by_label["cars"].get("mass"),
        "target key": sum(p for text, p in target.items() if shown(text, key)),
        "rows": rows,
        "exact": bool(exact),
    }


def mean(values):
    values = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.mean(values) if values else math.nan


def number(value, form=".2f"):
    return "" if value is None or math.isnan(value) else format(value, form)


def table(task, answers, say):
    for label in dict.fromkeys(label for answer in answers for label in answer["rows"]):
        rows = [answer["rows"][label] for answer in answers if label in answer["rows"]]
        drawn = [row for row in rows if "tv" in row]
        changed = sum(row["changed"] for row in drawn)
        stopped = next((row["error"] for row in rows if row.get("error")), None)
        mass = ", ".join(f"{answer['mass']:.2g}" if answer["mass"] else "-" for answer in answers) if label == "masked" else ""
        weighed = ", ".join(number(mean([row[field] for row in drawn])) for field in ("kl", "tv_tokens")).strip(", ")
        say(f"| {task.name if label == 'masked' else ''} | {mass} | {label} | {weighed} "
            f"| {number(mean([row['tv'] for row in drawn]))} | {number(mean([row['kl_text'] for row in drawn]), '.3f')} "
            f"({number(mean([row['noise'] for row in drawn]), '.3f')}) | {changed} of {len(drawn)} "
            f"| {number(mean([row['key'] for row in drawn]))} ({number(mean([answer['target key'] for answer in answers]))}) "
            f"| {number(mean([row['positions'] for row in drawn]), '.1f')} | {number(mean([row['first'] for row in drawn]), '.0f')}, "
            f"{number(mean([row['last'] for row in drawn]), '.1f')} | {'stopped' if stopped else ''} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unskew", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base", action="store_true")
    parser.add_argument("--judge", help="a folder with the model's weights for transformers")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--questions", type=int, default=2, help="the most questions of a task")
    parser.add_argument("--time-limit", type=float, default=120, help="seconds of each sampler")
    parser.add_argument("--tasks", help="a part of the names of tasks")
    parser.add_argument("--ends", default="free,model")
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--raw", type=pathlib.Path, help="a file for all that was measured, as JSON")
    options = parser.parse_args()
    judge = Judge(options.judge) if options.judge else None
    program = Program(options.unskew, options.model, not options.base)
    lines, raw, checked = [], [], []

    def say(line):
        print(line, flush=True)
        lines.append(line)
        if options.record:
            options.record.write_text("\n".join(lines).lstrip() + "\n")

    begun = time.monotonic()
    for end in options.ends.split(","):
        say(f"\n{pathlib.Path(options.model).name}, `end = {end}`, {options.samples} outputs of each sampler to each question\n")
        say("| task | P(constraint) | sampler | KL, TV of tokens | TV of texts | KL of texts (noise) | most probable changed | key (target) "
            "| positions an output | first, last tenth | |")
        say("|:--|:--|:--|:--|--:|--:|--:|--:|--:|--:|:--|")
        for task in TASKS:
            if options.tasks and options.tasks not in task.name:
                continue
            answers = []
            for seed, (question, key) in enumerate(task.questions[: options.questions]):
                answer = ask(program, judge, task, question, key, end, options.samples, seed + 1, options.time_limit)
                answers.append(answer)
                raw.append({"task": task.name, "end": end, "question": question, **answer})
                if answer["exact"] and answer["told"]:
                    checked.append(answer["told"] / answer["mass"])
            table(task, answers, say)
            if options.raw:
                options.raw.write_text(json.dumps(raw, indent=1))
    if checked:
        say(f"\nP(constraint), as `cars` estimates it, over that of the judge: {min(checked):.3f} to {max(checked):.3f} on {len(checked)} questions.")
    say(f"\n{(time.monotonic() - begun) / 60:.0f} minutes.")


if __name__ == "__main__":
    main()
