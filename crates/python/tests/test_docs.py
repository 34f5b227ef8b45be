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


def with_model(page, tokenizer_path, folder):
    """The code of a page, with the embedded model as its own."""
    shutil.copytree(tokenizer_path.parent / "tiny", folder)
    shutil.copy(tokenizer_path, folder)
    code = blocks(page)
    assert '"smollm2.gguf"' in code
    return code.replace('"smollm2.gguf"', repr(str(folder)))


def test_readme_md(tokenizer_path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pydantic")
    names, out = run(with_model("README.md", tokenizer_path, tmp_path / "model"), monkeypatch, tmp_path, capsys)
    assert len(out.splitlines()) == 3 and all(re.match(r"Person\(name='.*', age=-?\d+, city='.*'\)$", line) for line in out.splitlines())


def with_chats(page, tokenizer_path, folder):
    """The same, where the model has a chat template."""
    code = with_model(page, tokenizer_path, folder)
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return code


def test_the_tutorial(tokenizer_path, tmp_path, monkeypatch, capsys):
    names, out = run(with_chats("docs/tutorials/python.md", tokenizer_path, tmp_path / "model"), monkeypatch, tmp_path, capsys)
    lines = out.splitlines()
    words = ("joy", "sadness", "anger", "fear")
    assert len(lines) == 8 and all(line.split()[0] in words and float(line.split()[1]) < 0 for line in lines[:3])
    for line, sampler in zip(lines[3:5], ["masked", "cars"]):
        counts = dict(re.findall(r"'(\w+)': (\d+)", line))
        assert line.startswith(f"{sampler} Counter(") and set(counts) <= set(words) and sum(map(int, counts.values())) == 500
    assert all(re.match(r"Person\(name='.*', age=-?\d+\)$", line) for line in lines[5:7])
    assert lines[7].startswith("a back-reference is not supported")


def test_python_md(tokenizer_path, tmp_path, monkeypatch, capsys):
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    folder = tmp_path / "model"
    code = with_chats("docs/python.md", tokenizer_path, folder)
    names, out = run(code, monkeypatch, tmp_path, capsys)
    lines = out.splitlines()
    assert re.fullmatch("[A-Z][a-z]{2,9}", lines.pop(6))
    assert len(lines) == 17 and all(re.search(r" [A-Z][a-z]{2,9}$", line) for line in lines[:6])
    assert all(re.match(r"\d{4} -", line) for line in lines[6:16]) and float(lines[16]) < 0
    assert names["rows"].any(axis=1).all()
