"""Constraints of requests under the rules of a server, fuel for compiling, and faults that stay errors."""

import json
import os

import numpy as np
import pytest

import unskew
from unskew import _requests

NESTED = [
    ("{}", ""),
    ('{{"any_of": [{}]}}', "any_of[0]."),
    ('{{"sequence": [{{"regex": "a"}}, {}]}}', "sequence[1]."),
    ('{{"grammar": "start: @a", "grammar_format": "lark", "grammars": {{"a": {}}}}}', "grammars.a."),
    ('{{"any_of": [{{"any_of": [{}]}}]}}', "any_of[0].any_of[0]."),
]


@pytest.fixture
def plain(monkeypatch):
    for name in (_requests.FILES, _requests.LIMITS, _requests.COMPILE_FUEL):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("around, place", NESTED)
def test_files(plain, tmp_path, around, place):
    (tmp_path / "lent").mkdir()
    (tmp_path / "secret.txt").write_text("secret\n")
    (tmp_path / "lent" / "items.txt").write_text("b\n")
    os.symlink(tmp_path / "secret.txt", tmp_path / "lent" / "link.txt")
    for door in (_requests.spec_of, _requests.grammar_of, lambda text: _requests.spec_of(json.loads(text))):
        for path in ("items.txt", str(tmp_path / "secret.txt"), "/dev/urandom", "/proc/self/environ"):
            text = around.format(json.dumps({"set": path}))
            with pytest.raises(unskew.ConstraintError, match="lends none") as error:
                door(text)
            assert error.value.place == f"`{place}set`"
        plain.setenv(_requests.FILES, str(tmp_path / "lent"))
        for path in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "none", "", "~", "items.txt\0", "/dev/urandom"):
            with pytest.raises(unskew.ConstraintError, match="names nothing in the folder"):
                door(around.format(json.dumps({"set": path})))
        made = door(around.format(json.dumps({"set": "items.txt"})))
        assert str(tmp_path / "lent") in made.to_json() and "secret" not in made.to_json()
        plain.delenv(_requests.FILES)
    with pytest.raises(unskew.ConstraintError, match="gpu"):
        _requests.spec_of(around.format('{"set": "a", "gpu": true}'))


def test_what_is_no_constraint(plain):
    loop = {}
    loop["any_of"] = [loop]
    deep = {"regex": "a"}
    for _ in range(5000):
        deep = {"any_of": [deep]}
    for spec in ([1], "[1]", '"a"', "x", 3, None, "{", loop, deep, {"regex": {1}}, {"regex": "\ud800"}, b"{}", {"regexp": "a"}):
        with pytest.raises(unskew.ConstraintError):
            _requests.spec_of(spec)
    made = unskew.Constraint.of_request({"regex": "a"})
    assert made == unskew.Constraint.regex("a") == unskew.Constraint.of_request(made)


def test_limits(plain, compiler):
    for around, place in NESTED:
        with pytest.raises(unskew.ConstraintError, match=r"is 1073741824, and this server allows at most \d+:") as error:
            _requests.spec_of(around.format('{"regex": "a", "limits": {"grammar.state_items": 1073741824}}'))
        assert error.value.place == f"`{place}limits.grammar.state_items`"
    assert "limits" not in _requests.spec_of({"regex": "a"}).to_json()
    plain.setenv(_requests.LIMITS, '{"regex.nfa_size": 100, "grammar.nodes": 9000000}')
    table = {"regex.nfa_size": 100, "grammar.nodes": 9_000_000}
    assert _requests.limits() == table
    # Every way in has them.
    for made in (_requests.spec_of({"regex": "a"}), _requests.grammar_of("start: A\nA: /a/"), _requests.grammar_of('root ::= "a"')):
        assert json.loads(made.to_json())["limits"] == table
    with pytest.raises(unskew.ConstraintError, match="100"):
        compiler.compile(_requests.spec_of({"regex": "[a-z]{300}"}))
    assert json.loads(_requests.spec_of({"regex": "a", "limits": {"regex.nfa_size": 90}}).to_json())["limits"]["regex.nfa_size"] == 90
    with pytest.raises(unskew.ConstraintError, match="allows at most 100"):
        _requests.spec_of({"regex": "a", "limits": {"regex.nfa_size": 101}})
    for text in ("1", "[]", "{", '{"regex.nfa_size": 1.5}', '{"regex.nfa_size": true}', '{"regex.nfa_size": 0}', '{"nodes": 3}'):
        plain.setenv(_requests.LIMITS, text)
        with pytest.raises(unskew.OptionError, match=_requests.LIMITS):
            _requests.spec_of({"regex": "a"})


def test_the_ways_of_sglang(plain):
    from unskew.sglang import _requests as ways

    plain.setenv(_requests.LIMITS, '{"grammar.nodes": 77}')
    for kind, text in (("json", "{}"), ("regex", "a"), ("ebnf", "start: A\nA: /a/"), ("structural_tag", '{"format": {"type": "any_text"}}')):
        assert json.loads(ways.constraint(kind, text).to_json())["limits"] == {"grammar.nodes": 77}


def test_fuel(tok, plain):
    constraint = unskew.Constraint.json_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+b"}}})
    fuel = unskew.Compiler(tok).compile(constraint).fuel
    assert 0 < fuel < unskew.COMPILE_FUEL
    compiler = unskew.Compiler(tok)
    for _ in range(2):
        with pytest.raises(unskew.FuelError, match=f"more than {fuel - 1} units"):
            compiler.compile(constraint, fuel=fuel - 1)
        assert compiler.compile(constraint, fuel=fuel).fuel == fuel
    assert issubclass(unskew.FuelError, unskew.DeadlineError)
    assert _requests.compile_fuel() == unskew.COMPILE_FUEL
    plain.setenv(_requests.COMPILE_FUEL, "1000")
    assert _requests.compile_fuel() == 1000
    plain.setenv(_requests.COMPILE_FUEL, "much")
    with pytest.raises(unskew.OptionError, match="UNSKEW_COMPILE_FUEL"):
        _requests.compile_fuel()


def test_a_panic_is_an_error_of_the_package(capfd):
    with pytest.raises(unskew.InternalError, match="a fault of unskew, and not of its caller: asked for") as error:
        unskew._unskew._panic()
    assert isinstance(error.value, unskew.Error) and "asked for" in capfd.readouterr().err


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_memory_that_is_not_aligned(compiler, tok, shift):
    words = compiler.mask_words
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[ab]+")))
    for dtype in (np.int32, np.uint32):
        mask = np.zeros(8 * words + 4, np.uint8)[shift : shift + 8 * words].view(dtype).reshape(2, words)
        for write in (
            lambda: matcher.fill(mask, 1),
            lambda: matcher.fill(mask[0]),
            lambda: unskew.fill_batch([matcher, matcher], mask),
            lambda: unskew.Rows(mask, words),
            lambda: unskew.apply(np.zeros((2, tok.vocab_size), np.float32), mask),
        ):
            with pytest.raises(unskew.MatcherError, match="`mask` is not aligned"):
                write()
        assert not mask.any()
    logits = np.zeros(8 * tok.vocab_size + 4, np.uint8)[shift : shift + 8 * tok.vocab_size].view(np.float32).reshape(2, -1)
    aligned = np.zeros((2, words), np.int32)
    unskew.fill_batch([matcher, matcher], aligned)
    with pytest.raises(unskew.MatcherError, match="`logits` is not aligned"):
        unskew.apply(logits, aligned)
    with pytest.raises(unskew.MatcherError, match="`logits` is not aligned"):
        next(unskew.sample(lambda batch: logits[: len(batch)], unskew.Constraint.regex("a"), tok, sampler="masked", seed=1))
    # Bytes lie anywhere.
    loose = np.zeros(4 * words + 4, np.uint8)[shift : shift + 4 * words]
    matcher.fill(loose)
    assert bytes(loose) == aligned[0].tobytes()


def test_tokenizers_longer_than_the_rows(tok, tokenizer_path):
    text = json.loads(tokenizer_path.read_text())
    text["added_tokens"].append({**text["added_tokens"][0], "id": tok.vocab_size, "content": "<image>"})
    whole = unskew.Tokenizer.from_json(json.dumps(text))
    assert whole.vocab_size == tok.vocab_size + 1
    short = unskew.Tokenizer.from_json(json.dumps(text), vocab_size=tok.vocab_size)
    assert (short.vocab_size, short.mask_words, short.eos) == (tok.vocab_size, tok.mask_words, tok.eos)
    constraint = unskew.Constraint.regex("[a-z<>]{1,9}", canonical=True)
    masks = []
    for tokenizer in (short, tok):
        masks.append(np.zeros((1, tokenizer.mask_words), np.int32))
        unskew.Matcher(unskew.Compiler(tokenizer).compile(constraint)).fill(masks[-1])
    assert (masks[0] & ~masks[1] == 0).all()
    with pytest.raises(unskew.TokenizerError, match="the model knows the ids below"):
        short.encode_prompt("<image>")
    few = unskew.Tokenizer.from_file(tokenizer_path, vocab_size=500)
    assert (few.vocab_size, few.mask_words) == (500, 16)
