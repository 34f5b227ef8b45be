"""SGLang's interface without SGLang and torch: fakes of the classes that the plug-in is made of, and arrays of numpy."""

import importlib
import json
import pickle
import sys
import time
import types
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
import unskew


END = 256


class Base:
    """As `BaseGrammarObject` and `BaseGrammarBackend` of SGLang 0.5.23, as far as they are used."""

    def __init__(self):
        self.finished = False
        self.grammar_stats = None
        self.current_token = None
        self.executor = ThreadPoolExecutor()
        self.cache = {}

    @staticmethod
    def fill_vocab_mask_batched(entries, vocab_mask):
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    def copy(self):
        return self

    def maybe_init_reasoning(self, reasoning):
        pass

    def get_cached_or_future_value(self, key, require_reasoning):
        value = self.cache.get(key)
        if value:
            return value.copy(), True
        return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False

    def set_cache(self, key, value):
        self.cache[key] = value

    def _init_value_dispatch(self, key, require_reasoning):
        dispatch = {"full_assistant_ebnf": "ebnf"}.get(key[0], key[0])
        return getattr(self, f"dispatch_{dispatch}")(key[1])

    def reset(self):
        self.cache.clear()


class Invalid(Base):
    def __init__(self, error_message):
        super().__init__()
        self.error_message = error_message


class Stats:
    def __init__(self, dispatch_type):
        self.dispatch_type = dispatch_type
        self.is_cache_hit = False


class Row:
    def __init__(self, row, grammar):
        self.row, self.grammar = row, grammar


def module(name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    return made


@pytest.fixture(scope="module")
def plugin():
    choices, registry = [], {}
    torch = module(
        "torch",
        int32=np.int32,
        Tensor=np.ndarray,
        full=lambda shape, value, dtype, pin_memory: np.full(shape, value, dtype),
        cuda=types.SimpleNamespace(is_available=lambda: False),
    )
    base = module(
        "sglang.srt.constrained.base_grammar_backend",
        BaseGrammarBackend=Base,
        BaseGrammarObject=Base,
        GrammarStats=Stats,
        InvalidGrammarObject=Invalid,
        register_grammar_backend=registry.__setitem__,
    )
    arguments = module(
        "sglang.srt.server_args", GRAMMAR_BACKEND_CHOICES=choices, add_grammar_backend_choices=choices.extend
    )
    hooks = []
    registry_of_hooks = module(
        "sglang.srt.plugins.hook_registry",
        HookRegistry=types.SimpleNamespace(register=lambda *hook: hooks.append(hook)),
        HookType=types.SimpleNamespace(AROUND="around"),
    )
    fakes = {"torch": torch, base.__name__: base, arguments.__name__: arguments, registry_of_hooks.__name__: registry_of_hooks}
    for package in ("sglang", "sglang.srt", "sglang.srt.constrained", "sglang.srt.plugins"):
        fakes[package] = module(package, __path__=[])
    before = {name: sys.modules.get(name) for name in fakes}
    sys.modules.update(fakes)
    made = importlib.import_module("unskew.sglang")
    made.register()
    made.register()
    assert choices == ["unskew"] and list(registry) == ["unskew"]
    # Its parts are imported now; once more is the same.
    assert made.Backend is not None
    made.register()
    [(target, process, kind)] = hooks
    assert target.endswith("GrammarManager.process_req_with_grammar") and kind == "around"
    assert callable(registry["unskew"])
    yield types.SimpleNamespace(sglang=made, process=process, create=registry["unskew"], Backend=made.Backend, Grammar=made.Grammar)
    for name, value in before.items():
        if value is None:
            del sys.modules[name]
        else:
            sys.modules[name] = value
    sys.modules.pop("unskew.sglang._backend", None)
    sys.modules.pop("unskew.sglang._ahead", None)


@pytest.fixture(scope="module")
def tokenizer():
    tokens = [bytes([byte]) for byte in range(256)] + ["<end>", "<other>", b"12", b"<f", b'{"']
    return unskew.Tokenizer.from_vocabulary(tokens, eos=[END])


@pytest.fixture()
def backend(plugin, tokenizer):
    return plugin.Backend(tokenizer)


def made(backend, kind, text):
    value, is_kept = backend.get_cached_or_future_value((kind, text), False)
    return value.result(60) if isinstance(value, Future) else value


def allowed(grammar):
    mask = grammar.allocate_vocab_mask(999, 2, "cpu")
    assert mask.dtype == np.int32 and (mask == -1).all()
    grammar.fill_vocab_mask(mask, 1)
    assert (mask[0] == -1).all(), "another row"
    bits = np.unpackbits(mask[1].view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits))


def write(grammar, text):
    for byte in text.encode():
        grammar.accept_token(byte)


def test_masks_are_those_of_a_matcher(backend, tokenizer):
    compiler = unskew.Compiler(tokenizer)
    cases = [
        ("json", '{"type": "integer"}', unskew.Constraint.json_schema('{"type": "integer"}')),
        ("json", "$$ANY$$", unskew.Constraint.json_schema("{}")),
        ("regex", "[a-c]{2}", unskew.Constraint.regex("[a-c]{2}")),
        ("ebnf", 'root ::= "a" root | "b"', unskew.Constraint.gbnf('root ::= "a" root | "b"')),
        ("full_assistant_ebnf", 'start: "a" start | "b"', unskew.Constraint.lark('start: "a" start | "b"')),
        ("ebnf", '{"choices": ["yes", "no"]}', unskew.Constraint.choice(["yes", "no"])),
    ]
    for kind, text, constraint in cases:
        grammar, matcher = made(backend, kind, text), unskew.Matcher(compiler.compile(constraint))
        for _ in range(12):
            mask = np.zeros(tokenizer.mask_words, np.int32)
            matcher.fill(mask)
            ids = allowed(grammar)
            assert ids == set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")))
            id = int(max(ids))
            grammar.accept_token(id)
            assert matcher.accept(id) and grammar.current_token == id
            assert grammar.is_terminated() == matcher.is_terminated()
            if grammar.is_terminated():
                break


def test_the_end_and_tokens_after_it_are_taken_back(backend):
    grammar = made(backend, "regex", "ab?")
    write(grammar, "a")
    grammar.accept_token(END)
    assert grammar.is_terminated() and allowed(grammar) == {END}
    # A draft may go on after the end.
    grammar.accept_token(0)
    grammar.accept_token(1)
    grammar.rollback(1)
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated() and allowed(grammar) == {ord("b"), END}
    grammar.rollback(1)
    assert allowed(grammar) == {ord("a")}


def test_a_token_that_is_not_allowed_is_an_error_and_changes_nothing(backend):
    grammar = made(backend, "regex", "ab")
    with pytest.raises(ValueError, match="token 98 is not allowed after 0 tokens"):
        grammar.accept_token(ord("b"))
    assert allowed(grammar) == {ord("a")}


def test_a_draft_tree_is_walked_as_sglang_walks_it(backend):
    """Depth first: accept, fill, children, rollback(1), also after a token that ends the output."""
    grammar = made(backend, "regex", "(ab|ac|b)")
    #        0: (before) -> 1: a -> 2: b -> 3: end;  4: c (sibling of 2);  5: b (sibling of 1) -> 6: end
    tokens = [0, ord("a"), ord("b"), END, ord("c"), ord("b"), END]
    children = {0: [1, 5], 1: [2, 4], 2: [3], 3: [], 4: [], 5: [6], 6: []}
    mask = grammar.allocate_vocab_mask(999, len(tokens), "cpu")

    def visit(at):
        if at:
            grammar.accept_token(tokens[at])
        if not grammar.is_terminated():
            grammar.fill_vocab_mask(mask, at)
            for child in children[at]:
                visit(child)
        if at:
            grammar.rollback(1)

    visit(0)
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")
    ids = [set(np.flatnonzero(row)) for row in bits]
    a, b, c = map(ord, "abc")
    assert ids[:3] == [{a, b}, {b, c}, {END}] and ids[4:6] == [{END}, {END}]
    assert (mask[[3, 6]] == -1).all(), "rows after the end stay as they are"
    assert allowed(grammar) == {a, b}


def test_copies_are_independent(backend):
    grammar = made(backend, "regex", "abc")
    write(grammar, "a")
    copy = grammar.copy()
    write(copy, "b")
    assert allowed(grammar) == {ord("b")} and allowed(copy) == {ord("c")}
    assert copy.grammar_stats.is_cache_hit and copy.grammar_stats is not grammar.grammar_stats


def test_rows_of_a_batch(plugin, backend):
    grammars = [made(backend, "regex", text) for text in ("a", "b", "c")]

    class Wrapped(Base):
        def fill_vocab_mask(self, mask, idx):
            grammars[2].fill_vocab_mask(mask, idx)

    for last in (grammars[2], Wrapped()):
        mask = grammars[0].allocate_vocab_mask(999, 5, "cpu")
        entries = [Row(3, grammars[0]), Row(0, grammars[1]), Row(4, last)]
        plugin.Grammar.fill_vocab_mask_batched(entries, mask)
        bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")
        assert [set(np.flatnonzero(bits[row])) for row in (3, 0, 4)] == [{97}, {98}, {99}]
        assert (mask[1:3] == -1).all()
        plugin.Grammar.reset_vocab_mask(types.SimpleNamespace(fill_=mask.fill))
        assert (mask == -1).all()


def test_a_hit_is_what_sglang_was_told(backend):
    """And never what this rank has compiled already, or still has: ranks must answer alike."""
    first, is_kept = backend.get_cached_or_future_value(("regex", "[0-9]+"), False)
    assert not is_kept and isinstance(first, Future)
    first.result(60)
    assert not backend.get_cached_or_future_value(("regex", "[0-9]+"), False)[1]
    # After the ranks have told each other who is ready.
    backend.set_cache(("regex", "[0-9]+"), first.result(60).copy())
    backend.compiler.clear()
    second, is_kept = backend.get_cached_or_future_value(("regex", "[0-9]+"), False)
    assert is_kept and allowed(second) == allowed(first.result())
    backend.set_cache(("regex", "("), Invalid("line 1"))
    assert backend.get_cached_or_future_value(("regex", "("), False)[1]
    backend.reset()
    assert backend.get_cached_or_future_value(("regex", "[0-9]+"), False)[1] is False


def test_what_is_kept_is_bounded_alike_on_all_ranks(backend):
    cache, value = backend.cache, made(backend, "regex", "a")
    for number in range(3 * cache.MOST):
        backend.set_cache(("regex", str(number)), value)
        assert backend.get_cached_or_future_value(("regex", "0"), False)[1], "the last used stay"
    assert len(cache) == cache.MOST
    backend.set_cache(("regex", "x" * (1 << 20) + "x"), value)
    assert len(cache) == cache.MOST and ("regex", "0") in cache


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("regex", "(a", "line 1, column 1"),
        ("json", '{"properties": {"a": {"minimum": "x"}}}', "/properties/a"),
        ("json", "{", ""),
        ("ebnf", "root ::= missing", "line 1"),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "nothing"}}', "/format"),
        ("ebnf", '{"regex_file": "/etc/passwd"}', "`regex_file` names a file, and this server lends none"),
        ("ebnf", '{"set": "/etc/passwd"}', "`set` names a file, and this server lends none"),
        ("ebnf", '{"exclude_set": "/etc/passwd"}', "`exclude_set` names a file, and this server lends none"),
        ("ebnf", '{"json_schema": {}, "schema_registry": "/etc"}', "`schema_registry` names a file, and this server lends none"),
    ],
)
def test_errors_are_invalid_grammars_with_the_message(backend, kind, text, says):
    for _ in range(2):
        grammar = made(backend, kind, text)
        assert isinstance(grammar, Invalid) and says in grammar.error_message and grammar.error_message


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ebnf", "{"),
        ("ebnf", "{" + '"a": [' * 200_000),
        ("structural_tag", "[" * 200_000),
        ("structural_tag", '{"a":' * 5_000 + "1" + "}" * 5_000),
        ("json", "[" * 200_000),
        ("regex", "\ud800"),
        ("json", '{"const": "\ud800"}'),
        ("ebnf", '{"choices": "a"}'),
        ("ebnf", '{"choices": 1, "choices": ["a"]}'),
    ],
)
def test_no_text_raises_on_the_scheduler_s_thread(backend, kind, text):
    value, _ = backend.get_cached_or_future_value((kind, text), False)
    grammar = value.result(60) if isinstance(value, Future) else value
    assert isinstance(grammar, (Invalid, type(made(backend, "regex", "a"))))


def test_an_output_without_a_mask_ends_its_request_alone(plugin, backend, broken):
    grammars = [made(backend, "regex", text) for text in ("a", "b")]
    grammars[0].guarded.matcher = broken(grammars[0].guarded.matcher, fill=unskew.MatcherError("the output is beyond `state_items`"))
    mask = grammars[0].allocate_vocab_mask(999, 2, "cpu")
    plugin.Grammar.fill_vocab_mask_batched([Row(0, grammars[0]), Row(1, grammars[1])], mask)
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")
    # No stop id: SGLang would take it for the end of the output, and not ask the grammar.
    assert [set(np.flatnonzero(row)) for row in bits] == [{0}, {ord("b")}]
    with pytest.raises(ValueError, match="beyond `state_items`"):
        grammars[0].accept_token(0)
    write(grammars[1], "b")


def test_compiling_ends_at_its_deadline(plugin, tokenizer):
    backend = plugin.Backend(tokenizer, deadline=0.01)
    begin = time.monotonic()
    grammar = made(backend, "json", json.dumps({"enum": [f"{number:09d}" * 20 for number in range(20_000)]}))
    assert time.monotonic() - begin < 20
    assert isinstance(grammar, Invalid) and "deadline" in grammar.error_message
    # What was too slow once may be tried again.
    backend.set_cache(("json", "slow"), grammar)
    assert not backend.cache


def test_a_walk_waits_in_the_queue_of_grammars(plugin, backend):
    """And has no mask then, as SGLang's manager goes on: the result, a copy for the dict, the request."""
    options = types.SimpleNamespace

    def arrive(custom, manager=None, queued=False):
        manager = manager or options(grammar_backend=backend, grammar_queue=[])
        req = options(sampling_params=options(custom_params=custom), grammar=None, grammar_key=None, finished=lambda: False)
        waits = plugin.process(lambda *_: queued, manager, req)
        assert waits == queued or manager.grammar_queue == [req]
        return waits, req

    waits, req = arrive({"unskew": '{"constraint": {"regex": "[a-z]{7}"}}'})
    assert waits
    req.grammar = req.grammar.result(60)
    backend.set_cache(req.grammar_key, req.grammar.copy())
    assert req.grammar is None and not backend.cache
    assert backend.compiler.compile(unskew.Constraint.regex("[a-z]{7}"), timeout=0.0)
    # An error, with which SGLang's manager ends the request.
    waits, req = arrive({"unskew": '{"constraint": {"regex": "("}}'})
    with pytest.raises(ValueError, match="line 1"):
        req.grammar.result(60)
    # Others are as they were.
    assert not arrive(None)[0] and not arrive({"x": 1})[0] and arrive({"unskew": "{}"}, queued=True)[0]
    assert not arrive({"unskew": "{}"}, options(grammar_backend=None, grammar_queue=[]))[0]


def test_structural_tags(backend):
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<f"],
            # SGLang sends null for a tool without parameters.
            "tags": [{"begin": "<f>", "content": {"type": "json_schema", "json_schema": None}, "end": "</f>"}],
        },
    }
    grammar = made(backend, "structural_tag", json.dumps(tag))
    write(grammar, 'text <f>{"a": [1]}')
    assert ord("<") in allowed(grammar) and ord("x") not in allowed(grammar)
    old = {"structures": [{"begin": "<f>", "schema": None, "end": "</f>"}], "triggers": ["<f"]}
    grammar = made(backend, "structural_tag", json.dumps(old))
    write(grammar, "text <f>[1]</f> more")


def test_frames_of_answers(plugin, backend):
    frame = lambda content: {  # noqa: E731
        "type": "structural_tag",
        "format": {"type": "sequence", "elements": [{"type": "const_string", "value": "<m>"}, content]},
    }
    for kind, text, answer in [
        ("json", '{"type": "boolean"}', "true"),
        ("regex", "[0-9]", "7"),
        ("ebnf", 'root ::= "yes"', "yes"),
        ("structural_tag", json.dumps(frame({"type": "const_string", "value": "x"})), "<m>x"),
    ]:
        framed = backend.compile_framed_grammar(made(backend, kind, text), frame)
        write(framed, f"<m>{answer}")
        assert END in allowed(framed)
    assert backend.compile_framed_grammar(made(backend, "ebnf", '{"choices": ["a"]}'), frame) is None
    backend.reserve_framing_tokens([END, END + 1])
    with pytest.raises(unskew.ConstraintError, match="frames answers and is text"):
        backend.reserve_framing_tokens([97])


def test_options_of_the_server(plugin, tokenizer, monkeypatch):
    class Fast:
        def __init__(self):
            merges = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "</s>": 2}, "merges": []}}
            merges["added_tokens"] = [
                {"id": 2, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            ]
            self.backend_tokenizer = types.SimpleNamespace(to_str=lambda: json.dumps(merges))
            self.eos_token_id = 2

        def __len__(self):
            return 3

    options = types.SimpleNamespace
    backend = plugin.create(options(), Fast(), 70, {2})
    assert (backend.whitespace, backend.tokenizer.vocab_size, backend.tokenizer.eos, backend.deadline) == (None, 70, [2], 5.0)
    assert plugin.create(options(constrained_json_disable_any_whitespace=True), Fast(), 3, 2).whitespace == "spaced"
    assert plugin.create(options(constrained_json_max_whitespace_cnt=3), Fast(), 3, None).whitespace == "bounded:3"
    with pytest.raises(unskew.OptionError, match="constrained-json-whitespace-pattern"):
        plugin.create(options(constrained_json_whitespace_pattern=" *"), Fast(), 3, None)
    # A clock would decide on each rank alone.
    assert plugin.create(options(tp_size=2), Fast(), 3, None).deadline >= 600
    # One compiler for the model, whoever asks.
    fast = Fast()
    assert plugin.create(options(), fast, 3, {2}).compiler is plugin.create(options(), fast, 3, 2).compiler
    # A tokenizer may have more ids than the model has rows: they are none of its tokens.
    assert plugin.create(options(), Fast(), 2, None).tokenizer.vocab_size == 2
    monkeypatch.setenv("UNSKEW_COMPILE_SECONDS", "2.5")
    assert plugin.create(options(), Fast(), 3, None).deadline == 2.5
    monkeypatch.setenv("UNSKEW_COMPILE_SECONDS", "soon")
    with pytest.raises(unskew.OptionError, match="UNSKEW_COMPILE_SECONDS"):
        plugin.create(options(), Fast(), 3, None)


def test_threads_fill_and_compile_at_once(backend):
    texts = [f"[a-{chr(98 + number)}]{{2}}" for number in range(20)]

    def work(seed):
        for number in range(100):
            grammar = made(backend, "regex", texts[(seed + number) % len(texts)])
            assert len(allowed(grammar)) == (seed + number) % len(texts) + 2

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, seed) for seed in range(8)]:
            done.result(120)


def test_the_processor_of_clients_names_the_class():
    from unskew.sglang._requests import PROCESSOR

    class Named(pickle.Unpickler):
        def find_class(self, module, name):
            return (module, name)

    import io

    text = bytes.fromhex(json.loads(PROCESSOR)["callable"])
    assert Named(io.BytesIO(text)).load() == ("unskew.sglang._faithful", "Faithful")
