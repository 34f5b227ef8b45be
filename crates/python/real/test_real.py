"""The documents' code and our decoder on two real models, beside transformers: `cargo xtask real` runs this.

`UNSKEW_REAL` is the folder with the models (`models.py` makes them), and `UNSKEW_PROGRAM` the command line.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
import transformers

import unskew

ROOT = pathlib.Path(__file__).parents[3]
REAL = pathlib.Path(os.environ["UNSKEW_REAL"])
PROGRAM = os.environ["UNSKEW_PROGRAM"]
NAMES = ["smollm2", "gemma3"]
TEXTS = [
    "The harbour of Lisbon was rebuilt after the earthquake of 1755.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    '{"name": "Anna", "age": 27, "city": "Oslo"}',
    "Wie viel Uhr ist es? Es ist halb drei.",
    "Le café coûte 3,50 €, s'il vous plaît.",
    "日本の首都は東京です。",
    "x = 3.14159 * r ** 2  # area",
    "SELECT name FROM people WHERE age > 30;",
    "Once upon a time there was a fox who lived in the woods",
    "I can't believe it's not butter!!! 😀",
]


@pytest.fixture(scope="module", params=NAMES)
def checkpoint(request):
    folder = REAL / request.param
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return request.param, model, transformers.AutoTokenizer.from_pretrained(folder)


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


def code(path, folder):
    """The Python of a page as one program, which loads the folder (or file) where it names a model."""
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL))
    return re.sub(r'"HuggingFaceTB/SmolLM2-135M(-Instruct)?"|"smollm2.gguf"', lambda _: repr(str(folder)), blocks)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/python.md", "docs/python.md", "docs/transformers.md", "docs/is-my-model-skewed.md"])
def test_the_code_of_documents_runs_as_it_stands(page, tmp_path):
    """In a process of its own, as a reader would run it; README's also on the model without a chat template, and on files."""
    files = {"README.md": NAMES, "docs/tutorials/python.md": NAMES[:1]}.get(page, [])
    files = [REAL / f"{name}.gguf" for name in files]
    for model in [REAL / name for name in NAMES[: max(1, len(files))]] + files:
        (tmp_path / "tokenizer.json").write_bytes((REAL / model.stem / "tokenizer.json").read_bytes())
        program = tmp_path / "page.py"
        program.write_text(code(page, model))
        done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{page} on {model}\n{done.stderr}"
        if page == "docs/tutorials/python.md":
            # What the page shows is what is printed, on the file of which it was written.
            [shown] = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
            assert model.suffix != ".gguf" or shown in done.stdout, done.stdout
        if page == "README.md":
            assert len(re.findall(r"Person\(name='.*', age=-?\d+, city='.*'\)", done.stdout)) == 3, done.stdout


def test_logits_are_those_of_transformers(checkpoint):
    """The folder's weights are in 32 bits. The file has them quantized, as the folder's were before."""
    name, model, tokenizer = checkpoint
    worst = {"folder": 0.0, "file": 0.0}
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        for kind, path in [("folder", REAL / name), ("file", REAL / f"{name}.gguf")]:
            [line] = run("logits", "--model", str(path), "--ids", ",".join(map(str, ids)), "--format", "jsonl")
            found = torch.tensor(line["logits"]).log_softmax(-1)
            likely = expected > -15
            worst[kind] = max(worst[kind], float((found - expected)[: len(expected)][likely].abs().max()))
    print(name, worst)
    assert worst["folder"] < 2e-3 and worst["file"] < 0.35


def test_canonical_masks_allow_what_the_tokenizer_writes(checkpoint):
    """Texts of the model's own, and the tokenizers library as the judge of their spelling."""
    name, _, tokenizer = checkpoint
    folder = REAL / name
    outputs = run("generate", "--model", str(folder), "--prompt", "A letter to my friend: ", "-n", "40", "--seed", "1",
                  "--max-tokens", "24", "--batch", "40", "--format", "jsonl")
    tokens = unskew.Tokenizer.from_file(folder)
    compiled = unskew.Compiler(tokens).compile(unskew.Constraint.regex("(?s:.*)", canonical=True))
    verdicts = []
    for output in outputs:
        ids = output["ids"]
        text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        if "\ufffd" in text:
            # Cut off inside of a character.
            continue
        matcher = unskew.Matcher(compiled)
        found = matcher.accept_all(ids) == len(ids) and matcher.is_accepting()
        expected = tokenizer(text, add_special_tokens=False)["input_ids"] == ids
        assert found == expected, (ids, text)
        verdicts.append(found)
    assert len(verdicts) > 20 and any(verdicts), verdicts


def test_a_constraint_compiles_and_an_audit_runs(checkpoint):
    name, model, tokenizer = checkpoint
    import unskew.transformers

    tokens = unskew.Tokenizer.from_hf(tokenizer, vocab_size=model.config.get_text_config().vocab_size)
    report = unskew.audit(
        unskew.transformers.Model(model),
        unskew.Constraint.choice(["Yes", "No"]),
        tokens,
        prompt="Question: Is the sky blue? Answer: ",
        samplers=["masked", "cars"],
        n=40,
        seed=1,
    )
    shares = {line["label"]: dict(line["most_frequent"]) for line in report.lines}
    assert set(shares["cars"]) <= {"Yes", "No"} and sum(shares["cars"].values()) == pytest.approx(1), shares
