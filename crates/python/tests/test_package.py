"""The package itself: README, stubs, size, and a process that survives."""

import ast
import inspect
import json
import pathlib
import re
import subprocess
import sys
import time

import pytest

import unskew

HERE = pathlib.Path(__file__).parent


def test_the_quick_start_of_the_readme(tokenizer_path, tmp_path, monkeypatch, capsys):
    readme = (HERE.parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["mask"][2].any() and not names["mask"][3].any()
    outputs = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(outputs) == 3 and all(10 <= output <= 99 for output in outputs)


def test_the_stubs_name_all_that_there_is():
    stubs = ast.parse((pathlib.Path(unskew.__file__).parent / "_unskew.pyi").read_text())
    kept, constants = {"Fate", "Loosening", "Method", "Rejection", "Stats", "WalkOptions", "WalkStats"}, {"COMPILE_FUEL"}
    named = {node.name: node for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    named = {name: node for name, node in named.items() if not name.startswith("_")}
    assert set(named) - kept == {name for name in vars(unskew._unskew) if not name.startswith("_")} - constants
    assert set(named) - kept == set(unskew.__all__) - set(unskew._errors.__all__) - constants - {"__version__", "Audit", "Call", "asample", "tool_list"}
    for name, node in named.items():
        if name in kept:
            continue
        real = getattr(unskew._unskew, name)
        assert real.__doc__, name
        if isinstance(node, ast.FunctionDef):
            assert parameters(node, 0) == list(inspect.signature(real).parameters), name
            continue
        members = {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}
        public = {member for member in vars(real) if not member.startswith("_")}
        assert public == {member for member in members if not member.startswith("_")}, name
        for member in public:
            assert getattr(real, member).__doc__ or member in ("finish", "rows", "words", "seed", "sampler"), member
            if callable(getattr(real, member)):
                decorators = {decorator.id for decorator in members[member].decorator_list}
                skipped = 0 if "staticmethod" in decorators else 1
                given = [name for name in inspect.signature(getattr(real, member)).parameters if name != "self"]
                assert parameters(members[member], skipped) == given, (name, member)


def parameters(node, skipped):
    arguments = node.args
    rest = [] if arguments.kwarg is None else [arguments.kwarg]
    return [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]][skipped:]


def test_it_is_typed_and_needs_nothing():
    assert (pathlib.Path(unskew.__file__).parent / "py.typed").is_file()
    code = "import sys, unskew; print([name for name in ('numpy', 'torch', 'transformers') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_errors_are_kinds_of_error():
    for name, base in [
        ("ConstraintError", ValueError),
        ("DeadlineError", TimeoutError),
        ("TokenizerError", ValueError),
        ("MatcherError", ValueError),
        ("SampleError", RuntimeError),
        ("OptionError", ValueError),
    ]:
        assert issubclass(getattr(unskew, name), (base,)) and issubclass(getattr(unskew, name), unskew.Error)


def test_a_process_ends_with_a_sampler_under_way():
    code = (
        "import unskew\n"
        "tok = unskew.Tokenizer.from_vocabulary([b'0', b'1', '<end>'], eos=[2])\n"
        "draws = unskew.sample(lambda batch: [[0.0] * 3] * len(batch), unskew.Constraint.regex('[01]*'), tok, seed=1)\n"
        "print(next(draws).finish)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "stop", "")


def test_the_command_line(tokenizer_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "unskew", *arguments], capture_output=True, text=True, timeout=120)

    known = ("--tokenizer", str(tokenizer_path))
    answer = run("check", *known, "--regex", "[0-9]+", "--text", "17")
    assert answer.returncode == 0 and answer.stdout, answer
    wrong = run("check", *known, "--regex", "[0-9", "--text", "17")
    # The message, and below it the place in the regex.
    assert wrong.returncode == 2 and wrong.stderr.startswith("error: "), wrong
    assert wrong.stderr.splitlines()[1] == " --> --regex:1:1" and wrong.stderr.endswith("^\n"), wrong
    quiet = run("check", *known, "--regex", "[0-9", "--text", "17", "--quiet")
    assert quiet.stderr == wrong.stderr.splitlines(keepends=True)[0], quiet
    # The wheel has no embedded model.
    absent = run("generate", "--regex", "a")
    assert absent.returncode == 2 and "embedded model" in absent.stderr, absent
    script = pathlib.Path(sys.executable).parent / "unskew"
    version = subprocess.run([script, "--version"], capture_output=True, text=True).stdout
    assert version == f"unskew {unskew.__version__}\n"


def test_a_tokenizer_says_what_is_unusual_about_its_decoder(tokenizer_path):
    text = tokenizer_path.read_text(encoding="utf-8")
    assert unskew.Tokenizer.from_json(text).notes == []
    bare = unskew.Tokenizer.from_json(json.dumps({**json.loads(text), "decoder": None}))
    assert len(bare.notes) == 1 and "no decoder" in bare.notes[0]


def test_a_time_limit_ends_sampling_by_name(tok):
    def slow(prefixes):
        time.sleep(0.02)
        return [[0.0] * tok.vocab_size for _ in prefixes]

    # Uniform tokens write this once in thousands of millions of years.
    never = unskew.Constraint.regex("a{40}")
    with pytest.raises(unskew.SampleError, match="`time_limit` of 0.3 seconds is over, after 0 outputs"):
        next(unskew.sample(slow, never, tok, n=1, sampler="rejection:tries=10000000", time_limit=0.3, prompt="a"))
    with pytest.raises(unskew.OptionError, match="seconds above 0"):
        unskew.sample(slow, never, tok, n=1, time_limit=0)
    [draw] = unskew.sample(slow, never, tok, n=1, sampler="disc:k=1", prompt="a", max_tokens=48, seed=1)
    assert draw.origin == "resampled" and draw.effective == pytest.approx(1)
