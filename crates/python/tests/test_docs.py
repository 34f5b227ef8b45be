"""The code of the pages and of the READMEs, as a reader would run it, with the embedded model as the checkpoint."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def blocks(path):
    """The Python of a page, one program for all of its blocks."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL))


def run(code, monkeypatch, folder, capsys):
    monkeypatch.chdir(folder)
    names = {}
    exec(compile(code, "page", "exec"), names)
    return names, capsys.readouterr().out


def test_python_md(tokenizer_path, tmp_path, monkeypatch, capsys):
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    names, out = run(blocks("docs/python.md"), monkeypatch, tmp_path, capsys)
    lines = out.splitlines()
    assert len(lines) == 11 and all(re.match(r"\d{4} -", line) for line in lines[:10]) and float(lines[10]) < 0
    assert names["rows"].any(axis=1).all()
