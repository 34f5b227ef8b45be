"""The code of the pages and of the READMEs, as a reader would run it, with the embedded model as the checkpoint."""

import json
import pathlib
import re
import shutil

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
    folder = tmp_path / "model"
    shutil.copytree(tokenizer_path.parent / "tiny", folder)
    shutil.copy(tokenizer_path, folder)
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    code = blocks("docs/python.md").replace('"smollm2.gguf"', repr(str(folder)))
    names, out = run(code, monkeypatch, tmp_path, capsys)
    lines = out.splitlines()
    assert len(lines) == 17 and all(re.search(r" [A-Z][a-z]{2,9}$", line) for line in lines[:6])
    assert all(re.match(r"\d{4} -", line) for line in lines[6:16]) and float(lines[16]) < 0
    assert names["rows"].any(axis=1).all()
