"""Matchers, compilers and constraints: their answers and their errors."""

import copy
import json
import pickle
import threading

import numpy as np
import pytest

import unskew
from specs import SPECS, TAG


def matcher(compiler, constraint):
    return unskew.Matcher(compiler.compile(constraint))


def test_a_sequence(tok, compiler):
    m = matcher(compiler, unskew.Constraint.regex("[0-9]{3}"))
    ids = tok.encode("4") * 3
    assert m.validate(ids + ids) == 3 and m.ids == []
    assert m.accept(ids[0]) and not m.accept(tok.encode("x")[0])
    assert m.accept_all(ids) == 2 and m.is_accepting() and not m.is_terminated()
    fork = m.fork()
    (end,) = tok.eos
    assert m.accept(end) and m.is_terminated() and not m.accept(ids[0])
    assert m.ids == ids + [end] and fork.ids == ids
    m.rollback(2)
    assert m.ids == ids[:2] and not m.is_terminated() and not m.is_accepting()
    copied = copy.copy(m)
    m.reset()
    assert m.ids == [] and copied.ids == ids[:2] == copy.deepcopy(copied).ids
    with pytest.raises(unskew.MatcherError, match="cannot be taken back"):
        m.rollback(1)
    with pytest.raises(unskew.MatcherError, match="beyond the vocabulary"):
        m.accept(tok.vocab_size)
    for wrong in (-1, 2**32, 2**100):
        with pytest.raises(OverflowError):
            m.accept(wrong)
    with pytest.raises(TypeError):
        m.accept("4")
    assert m.validate(np.array(ids, np.int64)) == 3


def test_a_rejection_says_where_and_what(tok, compiler):
    compiled = compiler.compile(unskew.Constraint.json_schema({"type": "array", "items": {"enum": [1, 25]}}))
    assert compiled.rejection(tok.encode("[1,25]")) is None and compiled.rejection(tok.encode("[1]") + tok.eos) is None
    found = compiled.rejection(tok.encode("[1,2]"))
    assert (found["offset"], found["before"], found["after"]) == (4, "[1,2", "]")
    assert (found["expected"], found["expected_count"], found["may_end"]) == (["5"], 1, False)
    assert found["message"] == 'at byte 4, after "[1,2", there is "]"; expected: "5"'
    assert compiled.rejection(tok.encode("[1"))["after"] == ""


def test_what_is_forced(tok, compiler):
    m = matcher(compiler, unskew.Constraint.choice(["abcdef"]))
    assert m.forced_text() == b"abcdef"
    m = matcher(compiler, unskew.Constraint.choice(["hello world"], canonical=True))
    assert tok.decode(m.forced()) == "hello world" and len(m.forced(1)) == 1
    assert matcher(compiler, unskew.Constraint.regex("[ab]")).forced() == []


def test_stop_ids(tok, compiler):
    compiled = compiler.compile(unskew.Constraint.regex("[0-9]"))
    stop = tok.encode("!")[0]
    m = unskew.Matcher(compiled, stop_ids=[stop])
    assert m.stop_ids == [stop] and m.accept(tok.encode("4")[0])
    assert m.validate(tok.eos) == 0 and m.accept(stop) and m.is_terminated()
    with pytest.raises(unskew.MatcherError, match="beyond the vocabulary"):
        unskew.Matcher(compiled, stop_ids=[10**6])


def test_many_accept_at_once(tok, compiler):
    compiled = compiler.compile(unskew.Constraint.regex("[0-9]{2}"))
    first, second = unskew.Matcher(compiled), unskew.Matcher(compiled)
    assert unskew.accept_batch([first, second], [tok.encode("4")[0], tok.encode("x")[0]]) == [True, False]
    with pytest.raises(unskew.MatcherError, match="1 entries for 2 matchers"):
        unskew.accept_batch([first, second], [1])
    with pytest.raises(RuntimeError):
        unskew.accept_batch([first, first], [1, 1])


def test_the_tokenizer(tok, tokenizer_path, tmp_path):
    text = tokenizer_path.read_text()
    for other in (unskew.Tokenizer.from_json(text), unskew.Tokenizer.from_json(text.encode())):
        assert other.encode("Dear Ms Meyer") == tok.encode("Dear Ms Meyer")
    assert tok.decode(tok.encode("Grüße, Ms Meyer 🙂")) == "Grüße, Ms Meyer 🙂"
    assert tok.decode_bytes(tok.encode("ü")) == "ü".encode()
    assert tok.mask_words == (tok.vocab_size + 31) // 32
    padded = unskew.Tokenizer.from_file(tokenizer_path, vocab_size=tok.vocab_size + 100)
    assert padded.vocab_size == tok.vocab_size + 100
    with pytest.raises(unskew.TokenizerError, match="nowhere.json"):
        unskew.Tokenizer.from_file("nowhere.json")
    (tmp_path / "tokenizer.json").write_text(tokenizer_path.read_text())
    (tmp_path / "config.json").write_text('{"eos_token_id": 0}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0]}')
    of_folder = unskew.Tokenizer.from_file(tmp_path)
    assert (of_folder.vocab_size, list(of_folder.eos)) == (tok.vocab_size, [0])
    with pytest.raises(unskew.TokenizerError, match="no control token|not a control token"):
        unskew.Tokenizer.from_file(tmp_path, eos=[7])
    for text in ("", "{", "[]", '{"model": 1}'):
        with pytest.raises(unskew.TokenizerError):
            unskew.Tokenizer.from_json(text)
    with pytest.raises(unskew.MatcherError, match="beyond the vocabulary"):
        tok.decode([10**6])
    with pytest.raises(unskew.TokenizerError):
        unskew.Tokenizer.from_vocabulary([b"a"], eos=[7])
    with pytest.raises(TypeError):
        unskew.Tokenizer.from_vocabulary([1], eos=[])


def test_a_tokenizer_of_tiktoken():
    ranks = b"".join(
        __import__("base64").b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)
    )
    ranks += b"YWI= 256\n"
    tok = unskew.Tokenizer.from_tiktoken(ranks, r"\w+|\W+", [("<|endoftext|>", 257)])
    assert tok.encode("ab!") == [256, 33] and tok.eos == [257]


def test_a_tokenizer_of_hugging_face(tok, tokenizer_path):
    class Backend:
        def to_str(self):
            return tokenizer_path.read_text()

    class Fast:
        backend_tokenizer = Backend()
        eos_token_id = tok.eos[0]

    for object in (Backend(), Fast()):
        assert unskew.Tokenizer.from_hf(object).encode("hello") == tok.encode("hello")
    with pytest.raises(TypeError, match="fast tokenizer"):
        unskew.Tokenizer.from_hf("name")


@pytest.mark.parametrize(
    ("constraint", "place", "message"),
    [
        (lambda: unskew.Constraint.regex("a(b"), "line 1, column 2", "not closed"),
        (lambda: unskew.Constraint.regex(r"(a)\1"), "line 1, column 4", "back-reference"),
        (lambda: unskew.Constraint.lark('start: "a"\nb: !!'), "line 2, column", ""),
        (lambda: unskew.Constraint.gbnf("root ::= missing"), "line 1, column 10", "missing"),
        (lambda: unskew.Constraint.json_schema({"properties": {"a": {"type": "no"}}}), "/properties/a", "type"),
        (lambda: unskew.Constraint.json_schema("{"), None, ""),
        (lambda: unskew.Constraint.structural_tag({"type": "structural_tag", "format": {"type": "x"}}), "/format", "x"),
        (lambda: unskew.Constraint.set("nowhere.set"), "nowhere.set", "nowhere.set"),
    ],
)
def test_a_constraint_that_is_none(compiler, constraint, place, message):
    with pytest.raises(unskew.ConstraintError) as caught:
        compiler.compile(constraint())
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, unskew.Error)
    assert message in str(error) and "\n" not in str(error)
    assert (error.place is None) if place is None else (place in error.place)
    assert pickle.loads(pickle.dumps(error)).place == error.place


def test_options_that_do_not_go_together():
    for make, message in [
        (lambda: unskew.Constraint.json_schema({}, whitespace="wide"), "whitespace"),
        (lambda: unskew.Constraint.json_schema({}, exponents=101), "exponents"),
        (lambda: unskew.Constraint.choice([]), "empty"),
        (lambda: unskew.Constraint.from_json('{"regexp": "a"}'), "regexp"),
        (lambda: unskew.Constraint.response_format({"type": "xml"}), "xml"),
    ]:
        with pytest.raises(unskew.ConstraintError, match=message):
            make()
    with pytest.raises(TypeError):
        unskew.Constraint.json_schema(object())


def test_constraints_are_data():
    for spec in SPECS:
        constraint = unskew.Constraint.from_json(spec)
        assert json.loads(constraint.to_json()) == json.loads(spec)
        again = pickle.loads(pickle.dumps(constraint))
        assert again == constraint and hash(again) == hash(constraint)
    assert unskew.Constraint.regex("a") != unskew.Constraint.regex("b")
    assert unskew.Constraint.json_schema({"type": "integer"}) == unskew.Constraint.json_schema('{"type": "integer"}')
    assert "regex" in repr(unskew.Constraint.regex("a"))
    closed = unskew.Constraint.response_format(
        {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object", "properties": {}}}}
    )
    assert '"additionalProperties":false' in closed.to_json()


def test_explain():
    fates = unskew.Constraint.json_schema({"type": "integer", "title": "t"}).explain()
    assert {fate["construct"]: fate["fate"] for fate in fates}["title"] == "annotation"
    assert unskew.Constraint.structural_tag(TAG).explain()
    with pytest.raises(unskew.ConstraintError):
        unskew.Constraint.choice(["a"]).explain()


def test_to_gbnf():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0}}, "additionalProperties": False}
    closed = unskew.Constraint.json_schema(schema, whitespace="compact")
    assert closed.to_gbnf(strict=True) == ('root ::= "{" ("\\"a\\":" [0-9])? "}"\n', [])
    opened = unskew.Constraint.json_schema({"type": "object"})
    text, loosened = opened.to_gbnf()
    assert text.startswith("root ::= ") and unskew.Constraint.gbnf(text).to_gbnf()[1] == []
    assert [(one["kind"], one["place"]) for one in loosened] == [("repeats", "#")] and "repeat" in loosened[0]["why"]
    with pytest.raises(unskew.ConstraintError, match="#: texts that may not repeat"):
        opened.to_gbnf(strict=True)
    with pytest.raises(unskew.ConstraintError, match="more than 9 bytes"):
        closed.to_gbnf(max_bytes=9)


def test_the_compiler_keeps_what_it_compiled(tok):
    compiler = unskew.Compiler(tok, cache_bytes=1 << 20, library_bytes=1 << 20, constraint_bytes=1 << 16)
    for _ in range(3):
        compiler.compile(unskew.Constraint.regex("[0-9]+"))
    stats = compiler.stats()
    assert (stats["hits"], stats["misses"], stats["entries"]) == (2, 1, 1) and stats["bytes"] > 0
    compiler.clear()
    assert compiler.stats()["entries"] == 0
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(unskew.OptionError, match="timeout"):
            compiler.compile(unskew.Constraint.regex("a"), timeout=wrong)


def test_a_deadline(tok):
    compiler = unskew.Compiler(tok)
    slow = unskew.Constraint.regex("(a|b){0,500}c(a|b){0,500}(d|e){0,500}")
    with pytest.raises(TimeoutError) as caught:
        compiler.compile(slow, timeout=0.0)
    assert isinstance(caught.value, unskew.DeadlineError)


def test_threads_compile_one_constraint_once(tok):
    compiler = unskew.Compiler(tok)
    compiled, failures = [], []

    def work():
        try:
            compiled.append(compiler.compile(unskew.Constraint.json_schema({"type": "object"})))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = compiler.stats()
    assert not failures and (stats["hits"], stats["misses"]) == (7, 1)
    assert all(one.memory > 0 and one.mask_words == tok.mask_words for one in compiled)


def test_hostile_texts_are_errors(compiler):
    texts = ["(" * 10_000, "a" * 200_000, "[" * 100_000, "\0", "{" * 5000, '"' * 5000, "a{1000000}", "\\p{L}{500}"]
    kinds = ["regex", "json_schema", "lark", "gbnf", "ebnf", "structural_tag"]
    for kind in kinds:
        for text in texts:
            try:
                compiler.compile(getattr(unskew.Constraint, kind)(text), timeout=5.0)
            except (unskew.ConstraintError, unskew.DeadlineError):
                pass


NAMED = 'start: "call " name "(" arg ("," arg)* ")"\nname[capture]: /[a-z]+/\narg[capture="argument"]: /[0-9]{1,3}/'


def test_captures(tok, compiler):
    m = matcher(compiler, unskew.Constraint.lark(NAMED))
    ids = tok.encode("call add(1,23)")
    assert m.accept_all(ids[:-1]) == len(ids) - 1 and m.captures() is None
    assert m.accept(ids[-1])
    found = m.captures()
    assert [(c.name, c.text, c.byte_span) for c in found] == [
        ("name", b"add", (5, 8)),
        ("argument", b"1", (9, 10)),
        ("argument", b"23", (11, 13)),
    ]
    for capture in found:
        first, end = capture.token_span
        assert capture.text in tok.decode_bytes(ids[first:end]) and first < end
    assert m.accept(tok.eos[0]) and m.captures() == found and "name" in repr(found[0])
    m.rollback(2)
    assert m.captures() is None
    canonical = matcher(compiler, unskew.Constraint.lark(NAMED, canonical=True))
    assert canonical.accept_all(ids) == len(ids) and canonical.captures() == found
    assert matcher(compiler, unskew.Constraint.regex("a*")).captures() == []
    endless = matcher(compiler, unskew.Constraint.lark('start: s\ns[capture]: s s | "x"?'))
    with pytest.raises(unskew.MatcherError, match="through itself alone"):
        endless.captures()


def test_captures_of_draws(tok):
    model = lambda batch: np.zeros((len(batch), tok.vocab_size), np.float32)
    for draw in unskew.sample(model, unskew.Constraint.lark(NAMED), tok, n=4, sampler="masked", seed=1, max_tokens=200):
        found = draw.captures()
        if draw.finish == "length":
            assert found is None
            continue
        assert found[0].name == "name" and len(found) == 2 + draw.text.count(",")
        assert all(draw.text.encode()[slice(*c.byte_span)] == c.text for c in found)


def test_temperature(byte_tok):
    text = 'start: "a" name ("!" | more)\nname[temperature=0.5]: /[a-z]{2}/\nmore[temperature=1.5]: "?" name "."'
    m = unskew.Matcher(unskew.Compiler(byte_tok).compile(unskew.Constraint.lark(text)))
    found = []
    for byte in b"axx?yy.":
        found.append(m.temperature())
        assert m.accept(byte)
    assert found == [None, 0.5, 0.5, 1.5, 0.5, 0.5, 1.5] and m.temperature() is None
