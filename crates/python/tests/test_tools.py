"""Functions and lists of tools as constraints: what is drawn is read back as calls, by the marks of every family of models, and XGrammar's
builders allow the same texts, where XGrammar is installed."""

import enum
import json
import pickle
import random
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union

import numpy as np
import pytest

import unskew

#: Families with the marks that a vocabulary has as tokens: those of the first list are control tokens in the models' tokenizers.
FAMILIES = {
    "llama": ([], []),
    "hermes": ([], ["</tool_call>"]),
    "qwen_3": ([], ["</tool_call>"]),
    "qwen_3_coder": ([], ["</parameter>"]),
    "qwen_3_5": ([], ["</parameter>"]),
    "mimo": ([], ["</parameter>"]),
    "exaone": ([], []),
    "glm_4_7": ([], ["</arg_value>", "</tool_call>"]),
    "kimi": (["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"], []),
    "kimi_k3": (["<|open|>", "<|close|>", "<|sep|>"], []),
    "deepseek_r1": ([], []),
    "deepseek_v3_1": ([], []),
    "deepseek_v3_2": ([], ["</\uff5cDSML\uff5cparameter>"]),
    "deepseek_v4": ([], ["</\uff5cDSML\uff5cparameter>"]),
    "deepseek_v4_1": ([], ["</\uff5cDSML\uff5c parameter>"]),
    "minimax": (["<minimax:tool_call>", "</minimax:tool_call>"], ["</parameter>"]),
    "minimax_m3": (["]<]minimax[>["], []),
    "cohere": (["<|START_THINKING|>", "<|END_THINKING|>"], ["</cofl:value>"]),
    "mistral_v13": (["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"], []),
    "harmony": (["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"], []),
}
#: The ends of sequences; gpt-oss ends a call by one.
LAST = {"harmony": ["<|call|>", "<|return|>"]}


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclass
class Place:
    city: str
    zip: Optional[int] = None


@dataclass
class Tree:
    kids: "list[Tree]"


def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: the first number
        b (int): the second one
    """
    return a + b


def weather(city: str, unit: Unit) -> str:
    """Says what the weather is.

    :param city: where
    """
    return f"{city} {unit.name}"


def nothing() -> None:
    "Does nothing."


def where(place: Place) -> None: ...
def many(places: list[Place], deep: bool = False) -> None: ...
def of_any(value: Any) -> None: ...
def flag(on: bool) -> None: ...
def ratio(x: float) -> None: ...
def pick(kind: Literal["a", "b"]) -> None: ...
def maybe(n: Optional[int]) -> None: ...
def either(v: Union[int, bool]) -> None: ...
def pair(p: tuple[int, bool]) -> None: ...
def table(t: dict[str, int]) -> None: ...
def keywords(*, x: int, y: int = 1) -> None: ...
def noted(x: Annotated[int, "a note"]) -> None: ...
def levels(rows: list[list[int]]) -> None: ...
def numbers(n: Literal[1, 2, 3]) -> None: ...
def listed(u: list[Unit]) -> None: ...
def late(p: "Place") -> None: ...


class Box:
    def put(self, n: int) -> int:
        "Puts it."
        return n

    def __call__(self, s: bool) -> None: ...


FUNCTIONS = [
    add,
    weather,
    nothing,
    where,
    many,
    of_any,
    flag,
    ratio,
    pick,
    maybe,
    either,
    pair,
    table,
    keywords,
    noted,
    levels,
    numbers,
    listed,
    late,
    Box().put,
]

MCP = [
    [
        {
            "name": "read_file",
            "description": "Reads.",
            "inputSchema": {"type": "object", "properties": {"path": {"type": "string", "pattern": "^/[a-z]*$"}}, "required": ["path"]},
        }
    ],
    {
        "tools": [
            {"name": "ping"},
            {
                "name": "count",
                "inputSchema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "additionalProperties": False},
            },
        ]
    },
    [
        {
            "name": "search.web",
            "inputSchema": {
                "$defs": {"k": {"enum": ["a", "b"]}},
                "type": "object",
                "properties": {"k": {"$ref": "#/$defs/k"}},
                "required": ["k"],
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        }
    ],
    [
        {
            "type": "function",
            "function": {
                "name": "f",
                "strict": True,
                "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]},
            },
        }
    ],
    [
        {
            "name": "get-pods",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "labels": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
                    "all": {"type": "boolean"},
                },
                "required": ["labels"],
                "additionalProperties": False,
            },
        },
        {"name": "a_b", "input_schema": {"type": "object", "properties": {}, "additionalProperties": False}},
    ],
]


def tokenizer(family, control=True):
    """Single bytes and the marks of a family, as control tokens or as text."""
    marks, ends = FAMILIES[family]
    last = LAST.get(family, []) if control else []
    tokens = [bytes([b]) for b in range(256)] + [b'"}', b"]}"] + [end.encode() for end in ends]
    tokens += marks if control else [mark.encode() for mark in marks]
    tokens += [*last, "<eos>"]
    return unskew.Tokenizer.from_vocabulary(tokens, eos=range(len(tokens) - 1 - len(last), len(tokens)))


def model(tok):
    """A model that likes what ends something."""
    row = np.zeros(tok.vocab_size, np.float32)
    row[[ord('"'), ord("}"), ord("]"), ord("<")]] = 3
    row[256:] = 5
    return lambda batch: np.tile(row, (len(batch), 1))


def drawn(constraint, tok, n, seed=1, most=700):
    draws = unskew.sample(model(tok), constraint, tok, n=n, sampler="masked", seed=seed, max_tokens=most)
    return [draw for draw in draws if draw.finish == "stop"]


def fits(value, kind):
    """Whether an argument is of the type of its parameter, as far as this file's types go."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin is Annotated:
        return fits(value, arguments[0])
    if origin is Literal:
        return value in arguments
    if origin is Union:
        return any(fits(value, one) for one in arguments)
    if origin in (list, dict, tuple):
        return isinstance(value, origin) and all(fits(one, arguments[0]) for one in value if origin is list)
    return type(value) is kind


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("control", [True, False], ids=["control tokens", "text"])
def test_draws_are_calls(family, control):
    tok = tokenizer(family, control)
    known = {function.__name__: function for function in FUNCTIONS}
    for parallel in (True, False):
        constraint = unskew.Constraint.tools([add, pick, flag, maybe], model=family, choice="required", parallel=parallel)
        draws = drawn(constraint, tok, 5)
        assert len(draws) >= 4
        for draw in draws:
            calls = draw.calls
            assert len(calls) == 1 or (parallel and len(calls) > 1)
            for call in calls:
                hints = typing.get_type_hints(known[call.name], include_extras=True)
                assert call.function is known[call.name]
                assert all(fits(value, hints[name]) for name, value in call.arguments.items()), call
    (draw, *_) = drawn(unskew.Constraint.tools([add, flag], model=family, choice=flag), tok, 2)
    (call,) = draw.calls
    assert call.name == "flag" and type(call.arguments["on"]) is bool and call() is None
    text = drawn(unskew.Constraint.tools([add], model=family, choice="none"), tok, 3)
    assert text and all(draw.calls == [] for draw in text)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions(function):
    hints = typing.get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    for family in ("llama", "qwen_3_coder"):
        tok = tokenizer(family)
        constraint = unskew.Constraint.tools([function], model=family, choice="required", parallel=False)
        draws = drawn(constraint, tok, 5, most=1200)
        assert draws, family
        for draw in draws:
            (call,) = draw.calls
            assert call.name == function.__name__ and set(call.arguments) <= set(hints)
            assert all(fits(value, hints[name]) for name, value in call.arguments.items()), call


@pytest.mark.parametrize("tools", MCP, ids=lambda tools: str(tools)[:30])
@pytest.mark.parametrize("family", ["hermes", "qwen_3_coder", "kimi", "deepseek_v3_2", "glm_4_7"])
def test_lists_of_tools(tools, family):
    tok = tokenizer(family)
    listed = {tool["function"]["name"]: tool["function"]["parameters"] for tool in unskew.tool_list(tools)}
    constraint = unskew.Constraint.tools(tools, model=family, choice="required", parallel=False, closed=True)
    compiler = unskew.Compiler(tok)
    found = 0
    for draw in drawn(constraint, tok, 6):
        (call,) = draw.calls
        schema = compiler.compile(unskew.Constraint.json_schema(listed[call.name], whitespace="flexible", any_order=True, spelling="any"))
        ids = tok.encode(json.dumps(call.arguments))
        assert call.function is None and schema.rejection(ids) is None, schema.rejection(ids)
        found += 1
    assert found >= 3


def test_text_with_calls_and_reasoning(byte_tok):
    compiler = unskew.Compiler(byte_tok)

    def accepts(constraint, text):
        return compiler.compile(constraint).rejection(byte_tok.encode(text)) is None

    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    auto = unskew.Constraint.tools([add, flag], model="Qwen/Qwen3-8B")
    for text, names in [("no call", []), (call, ["add"]), (f"I add: {call}\n{call} done", ["add", "add"])]:
        assert accepts(auto, text) and [one.name for one in auto.calls_of(text)] == names
    assert not accepts(auto, '<tool_call>\n{"name": "sub", "arguments": {}}\n</tool_call>')
    assert auto.calls_of(call)[0]() == 3 and auto.value_of("no call") == "no call"
    single = unskew.Constraint.tools([add], model="qwen3", parallel=False)
    assert accepts(single, call) and not accepts(single, call + call)
    thinking = unskew.Constraint.tools([add], model="qwen_3", reasoning=True, choice="required")
    for thought in ("<think>\nso </think>\n\n", "the prompt began it </think>\n\n", f"<think>{call}</think>\n\n"):
        assert accepts(thinking, thought + call) and len(thinking.calls_of(thought + call)) == 1
    assert not accepts(thinking, call)
    free = unskew.Constraint.tools([add], model="qwen_3", reasoning="auto", choice="required")
    assert accepts(free, call) and accepts(free, f"<think>x</think>\n\n{call}") and len(free.calls_of(call)) == 1
    again = pickle.loads(pickle.dumps(free))
    assert again == free and again.calls_of(call) == free.calls_of(call)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_response_format_beside_tools(family):
    tok = tokenizer(family)
    for choice, answers in (("auto", {True, False}), ("none", {False}), ("required", {True})):
        constraint = unskew.Constraint.tools([flag, add], model=family, choice=choice, response_format=list[bool])
        seen = set()
        for draw in [draw for seed in range(4) for draw in drawn(constraint, tok, 6, seed)]:
            calls, value = draw.calls, draw.value
            seen.add(bool(calls))
            assert (value is None) == bool(calls) and (calls or isinstance(value, list) and all(type(one) is bool for one in value))
        assert seen <= answers and seen, (choice, seen)
        answer = {
            "kimi_k3": "[true]<|close|>response<|sep|><|close|>message<|sep|>",
            "harmony": "<|channel|>final<|message|>[true]<|return|>",
            "minimax": "\n</think>\n\n\n\n[true]",
        }.get(family, "[true]")
        # Without control tokens, each mark is its text.
        text_tok = tokenizer(family, control=False)
        rejection = unskew.Compiler(text_tok).compile(constraint).rejection(text_tok.encode(answer))
        assert (rejection is None) == (choice != "required"), rejection
        assert constraint.value_of(answer) == [True] and constraint.calls_of(answer) == []


def test_response_formats(byte_tok):
    compiler = unskew.Compiler(byte_tok)
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    for kind, text, value, wrong in [
        (Unit, "celsius", Unit.C, "kelvin"),
        (schema, "12", 12, "x"),
        (Place, '{"city": "O"}', Place("O"), "{}"),
    ]:
        constraint = unskew.Constraint.tools([add], model="llama", response_format=kind)
        compiled = compiler.compile(constraint)
        assert compiled.rejection(byte_tok.encode(text)) is None and constraint.value_of(text) == value and constraint.calls_of(text) == []
        assert compiled.rejection(byte_tok.encode(wrong)) is not None
        assert constraint.value_of('{"name": "add", "parameters": {"a": 1}}') is None


def test_a_strict_response_format_has_no_other_members(byte_tok):
    compiler = unskew.Compiler(byte_tok)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for strict in (True, False):
        kind = {"type": "json_schema", "json_schema": {"name": "n", "strict": strict, "schema": schema}}
        compiled = compiler.compile(unskew.Constraint.tools([add], model="llama", response_format=kind))
        assert compiled.rejection(byte_tok.encode('{"a": 1}')) is None
        assert (compiled.rejection(byte_tok.encode('{"a": 1, "b": 2}')) is None) == (not strict)


def test_what_is_refused():
    def starred(*numbers: int) -> None: ...
    def untyped(x) -> None: ...
    def positional(x: int, /) -> None: ...
    def callback(f: typing.Callable[[], int]) -> None: ...

    tools = unskew.Constraint.tools
    for function in (starred, untyped, positional, callback):
        with pytest.raises(unskew.ConstraintError, match="; ") as error:
            tools([function], model="llama")
        assert error.value.place
    for options, message in [
        ({"model": "gemma-4"}, "is not known: give its family, one of llama, hermes, qwen_3, .*harmony"),
        ({"model": "llama", "choice": "sub"}, "`choice` is 'sub'"),
        ({"model": "llama", "choice": flag}, 'names "flag", which is none'),
        ({"model": "llama", "reasoning": "much"}, "`reasoning` is 'much'"),
        ({"model": "llama", "reasoning": True}, "no marks of reasoning"),
        ({"model": "llama", "response_format": {"type": "text"}}, "`response_format` is a type"),
        ({"model": "llama", "response_format": {"type": "x"}}, "response_format"),
    ]:
        with pytest.raises((unskew.OptionError, unskew.ConstraintError), match=message):
            tools([add], **options)
    for wrong, message in [
        ([{"name": "a b"}], '`tools/0/name` is "a b"'),
        ([add, add], 'another tool with the name "add"'),
        (["x"], "is no tool"),
        (add, "give a list"),
        ([Box], "a class and no function"),
        ([{"name": "f", "parameters": {}, "inputSchema": {}}], "two schemas"),
    ]:
        with pytest.raises((unskew.OptionError, unskew.ConstraintError), match=message):
            tools(wrong, model="llama")
    with pytest.raises(unskew.ConstraintError, match="no tools"):
        tools([], model="llama", choice="required")
    with pytest.raises(unskew.ConstraintError, match="no part of another"):
        tools([add], model="llama") | int


def test_names_of_models():
    for name, family in [
        ("Qwen/Qwen3-8B", "qwen_3"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen_3_coder"),
        ("Qwen/Qwen3.5-27B", "qwen_3_5"),
        ("openai/gpt-oss-20b", "harmony"),
        ("moonshotai/Kimi-K2-Instruct", "kimi"),
        ("zai-org/GLM-4.7-Flash", "glm_4_7"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v3_1"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v3_1"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek_v3_2"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama"),
        ("qwen3", "qwen_3"),
        ("DeepSeek_V4_1", "deepseek_v4_1"),
    ]:
        _, marks = unskew._unskew._tools(name, "[]", "auto", True, "disabled", None, None)
        assert json.loads(marks)["family"] == family, name
    for name in ("Qwen3.9-8B", "llama-4-scout", "mistral-7b-instruct-v0.3", "gemma-4", "", "Qwen"):
        with pytest.raises(unskew.ConstraintError, match="is not known"):
            unskew.Constraint.tools([add], model=name)


def test_tools_as_objects_and_as_text():
    class Tool(typing.NamedTuple):
        name: str
        description: Optional[str]
        inputSchema: dict

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    for tools in ([Tool("f", None, schema)], json.dumps({"tools": [{"name": "f", "inputSchema": schema}]})):
        constraint = unskew.Constraint.tools(tools, model="llama", choice="f")
        (call,) = constraint.calls_of('{"name": "f", "parameters": {"n": 3}}')
        assert (call.name, call.arguments, call.function) == ("f", {"n": 3}, None)
        with pytest.raises(unskew.OptionError, match="is no function"):
            call()
        named = {"type": "function", "function": {"name": "f"}}
        assert unskew.Constraint.tools(tools, model="llama", choice=named) == constraint


def test_schemas_of_functions():
    (tool,) = unskew.tool_list([add])
    function = tool["function"]
    assert (tool["type"], function["name"], function["description"]) == ("function", "add", "Adds two numbers.")
    assert function["parameters"]["required"] == ["a"] and function["parameters"]["additionalProperties"] is False
    assert {name: one["description"] for name, one in function["parameters"]["properties"].items()} == {
        "a": "the first number",
        "b": "the second one",
    }
    (other,) = unskew.tool_list([weather])
    assert other["function"]["parameters"]["properties"]["city"]["description"] == "where"
    assert unskew.tool_list([Box().put])[0]["function"]["parameters"]["required"] == ["n"]


def test_references_of_functions_are_resolved():
    def sizes(place: Place, others: list[Place], tree: "Tree", const: Optional[Unit] = None) -> None: ...

    (tool,) = unskew.tool_list([sizes])
    members = tool["function"]["parameters"]["properties"]
    assert members["place"]["type"] == members["others"]["items"]["type"] == "object"
    assert members["const"]["anyOf"][0]["enum"] == ["celsius", "fahrenheit"] and '"#/$defs/Place"' not in json.dumps(members)
    # A type that contains itself stays behind its name, with a type beside it where it stands first.
    definitions = tool["function"]["parameters"]["$defs"]
    assert members["tree"]["type"] == "object" and set(definitions) == {"Tree"} and "$ref" in json.dumps(definitions)
    tok = tokenizer("llama")
    for draw in drawn(unskew.Constraint.tools([sizes], model="llama", choice="required", parallel=False), tok, 5, most=1500):
        (call,) = draw.calls
        assert isinstance(call.arguments["tree"], Tree) and isinstance(call.arguments["place"], Place)


def theirs(family, tools, choice, parallel):
    xgrammar = pytest.importorskip("xgrammar", reason="XGrammar is not installed")
    choice = {"type": "function", "function": {"name": choice.__name__}} if callable(choice) else choice
    tag = xgrammar.get_model_structural_tag(family, tools=tools, tool_choice=choice, reasoning="disabled", parallel_tool_calls=parallel)
    return xgrammar.Grammar.from_structural_tag(tag)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("hermes", "mistral_v13")])
def test_the_same_language_as_xgrammar(family):
    """Draws, and texts that differ from them in a place or two: both sides accept the same. Differences that are meant are left out: several
    calls of gpt-oss, strings with the marks that end a call, and calls where none is asked for."""
    pytest.importorskip("xgrammar", reason="XGrammar is not installed")
    from xgrammar.testing import _is_grammar_accept_string

    tok, rng = tokenizer(family, control=False), random.Random(7)
    # White space beside the value of an element is a part of it on one side alone.
    # So it is in JSON where parsers ask for one line.
    has_elements = any(word in unskew.Constraint.tools([add], model=family).to_json() for word in ('"style"', '"whitespace"'))
    more, whitespace = ("}x<", "compact") if has_elements else ("\n }x<", "printed")

    def with_whitespace(constraint, whitespace):
        return unskew.Constraint.structural_tag(json.loads(constraint.to_json())["structural_tag"], whitespace=whitespace)

    compiler, compared, both = unskew.Compiler(tok), 0, 0
    for choice in ("auto", "required", flag):
        for parallel in (True, False):
            constraint = unskew.Constraint.tools([add, pick, flag], model=family, choice=choice, parallel=parallel)
            compiled = compiler.compile(with_whitespace(constraint, "flexible"))
            grammar = theirs(family, unskew.tool_list([add, pick, flag]), choice, parallel)
            required = unskew.Constraint.tools([add, pick, flag], model=family, choice="required")
            texts = [draw.text for one in (constraint, required) for draw in drawn(with_whitespace(one, whitespace), tok, 5)]
            texts += [rng.choice(texts) + rng.choice(texts) for _ in range(4)] if family != "harmony" else []
            for text in list(texts):
                for _ in range(6):
                    start = rng.randrange(len(text) + 1)
                    stop = min(len(text), start + rng.choice([1, 1, 2, 5]))
                    texts.append(rng.choice([text[:start] + text[stop:], text[:start] + rng.choice(more) + text[start:]]))
            for text in texts:
                if "\ufffd" not in text:
                    ours = compiled.rejection(tok.encode(text)) is None
                    assert ours == _is_grammar_accept_string(grammar, text), (choice, parallel, ours, text)
                    compared, both = compared + 1, both + ours
    assert compared > 200 and both > 40


def test_what_is_no_list_of_tools_is_an_error_of_ours():
    with pytest.raises(unskew.OptionError, match="no JSON"):
        unskew.Constraint.tools("x", model="hermes")
    with pytest.raises(unskew.OptionError, match="is a class"):
        unskew.Constraint.tools([int], model="hermes")
