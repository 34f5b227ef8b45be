"""Types of the package as users' checkers read them: the stubs, the modules, and the pages' examples."""

import os
import pathlib
import subprocess
import sys

import pytest

from test_docs import blocks

pytest.importorskip("mypy")

SOURCE = pathlib.Path(__file__).parents[1]

#: Each line with a comment is wrong, and for the reason in it; the others are right.
WRONG = """
import unskew
tok = unskew.Tokenizer.from_file(3)  # arg-type
compiled = unskew.Compiler(tok).compile(int, timeout="5")  # arg-type
unskew.Matcher(compiled).accept("a")  # arg-type
ids: list[str] = next(unskew.sample(lambda batch: [[0.0]], int, tok)).ids  # assignment
unskew.sample(lambda batch: [[0.0]], int, tok, prompts="a")  # call-arg
unskew.apply([0.0])  # call-arg
chat = [{"role": "user", "content": "A name?"}]
for prompt in ("a", [1, 2], chat):
    unskew.sample(lambda batch: [[0.0]], int, tok, prompt=prompt)
unskew.sample(lambda batch: [[0.0]], int, tok, prompt=[chat, [1, 2], "a"])
unskew.sample(lambda batch: [[0.0]], int, tok, prompt=[1.5])  # list-item
"""


def mypy(folder, *targets):
    command = [sys.executable, "-m", "mypy", "--config-file", SOURCE / "pyproject.toml", "--cache-dir", folder / "cache", *targets]
    environment = {**os.environ, "MYPYPATH": str(SOURCE / "python")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert not done.stderr, done.stderr
    return done.stdout


def test_mypy_finds_nothing_in_the_package(tmp_path):
    found = mypy(tmp_path, SOURCE / "python" / "unskew")
    assert found.startswith("Success: no issues found in "), found


def test_mypy_reads_programs_of_users(tmp_path):
    (tmp_path / "page.py").write_text(blocks("docs/python.md"))
    found = mypy(tmp_path, "page.py")
    assert found.startswith("Success: "), found
    (tmp_path / "wrong.py").write_text(WRONG)
    found = mypy(tmp_path, "wrong.py").splitlines()
    expected = [(at, line.split("# ")[1]) for at, line in enumerate(WRONG.splitlines(), 1) if "# " in line]
    errors = [(int(line.split(":")[1]), line.split("[")[-1].rstrip("]")) for line in found if ": error: " in line]
    assert errors == expected, found
