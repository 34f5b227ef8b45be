"""Types as constraints: what is drawn is a value, what is a value is an output, and what has no exact schema is refused by name.

The table holds with pydantic and without it. Types of pydantic's own are skipped where it is absent.
"""

import dataclasses
import datetime
import decimal
import enum
import json
import pickle
import random
import re
import sys
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import numpy as np
import pytest

import unskew
from unskew import _types

try:
    import pydantic
    from typing_extensions import NotRequired
    from typing_extensions import TypedDict as AnyTypedDict
except ImportError:
    pydantic = None
    AnyTypedDict, NotRequired = TypedDict, getattr(typing, "NotRequired", None)

UTC = datetime.timezone.utc


class Color(enum.Enum):
    RED = "red"
    BLUE = "dark blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    NONE = None
    ONE = 1
    TEXT = "text"


class Word(str, enum.Enum):
    A = "a"
    B = "b"


@dataclasses.dataclass
class Point:
    x: int
    y: bool = True


@dataclasses.dataclass
class Tree:
    leaf: Literal[1, 2]
    below: Optional["Tree"] = None


@dataclasses.dataclass
class Shape:
    name: Color
    corners: list[Point] = dataclasses.field(default_factory=list)
    at: Optional[datetime.date] = None


class Pair(NamedTuple):
    first: int
    second: bool = False


Movie = AnyTypedDict("Movie", {"year": int, "seen": bool})
Partial = AnyTypedDict("Partial", {"year": int, "sub": Movie}, total=False)
Empty = AnyTypedDict("Empty", {})

D = datetime.datetime(2024, 2, 29, 13, 5, 7, tzinfo=UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")

#: Types, with a text and its value, and texts that are no outputs.
TABLE = [
    (int, "-12", -12, ["1.5", '"1"', "true"]),
    (float, "2.5", 2.5, ['"x"', "null"]),
    (bool, "true", True, ["True", "1"]),
    (str, '"a \\"b\\" é"', 'a "b" é', ["a", "1"]),
    (type(None), "null", None, ["None", "0"]),
    (Any, '{"a": [1, null]}', {"a": [1, None]}, ["x"]),
    (datetime.date, '"2024-02-29"', datetime.date(2024, 2, 29), ['"2023-02-29"', '"0000-01-01"', "2024-02-29"]),
    (datetime.datetime, '"2024-02-29T13:05:07Z"', D, ['"2024-02-29"', '"2016-12-31T23:59:60Z"']),
    (datetime.time, '"13:05:07Z"', datetime.time(13, 5, 7, tzinfo=UTC), ['"25:00:00Z"', '"23:59:60Z"']),
    (uuid.UUID, f'"{ID}"', ID, ['"1234"']),
    (Literal["a", "b c"], "b c", "b c", ['"a"', "c"]),
    (Literal["yes"], "yes", "yes", ["no"]),
    (Literal[1, 2], "2", 2, ["3", '"1"']),
    (Literal[1, "a"], '"a"', "a", ["a", "2"]),
    (Literal[True, None], "null", None, ["false"]),
    (Literal[Color.RED], "red", Color.RED, ["dark blue"]),
    (Color, "dark blue", Color.BLUE, ['"red"', "BLUE"]),
    (Word, "a", Word.A, ["c"]),
    (Level, "2", Level.HIGH, ["3"]),
    (Mixed, '"text"', Mixed.TEXT, ["text", "2"]),
    (Union[Literal["a"], Color], "red", Color.RED, ['"a"', "b"]),
    (Optional[Literal["a"]], '"a"', "a", ["a"]),
    (Optional[int], "null", None, ['"null"']),
    (Union[int, str], '"1"', "1", ["1.5"]),
    (Union[int, bool, None], "true", True, ["1.5"]),
    (Union[Point, Pair], '{"x": 1}', Point(1), ["[]"]),
    (list[int], "[1, 2]", [1, 2], ["[true]", "{}"]),
    (typing.List[bool], "[]", [], ["[1]"]),
    (list, '["x"]', ["x"], ["1"]),
    (list[Color], '["red"]', [Color.RED], ["[red]"]),
    (list[list[int]], "[[1], []]", [[1], []], ["[1]"]),
    (set[Literal[1, 2]], "[1, 2]", {1, 2}, ["[1, 1]", "[3]"]),
    (frozenset[bool], "[true]", frozenset({True}), ["[true, true]"]),
    (typing.Sequence[int], "[3]", [3], ["3"]),
    (tuple[int, bool], "[1, false]", (1, False), ["[1]", "[1, false, 2]"]),
    (tuple[int, ...], "[1, 2, 3]", (1, 2, 3), ['["1"]']),
    (tuple, '[1, "x"]', (1, "x"), ["1"]),
    (dict[str, int], '{"a b": 1}', {"a b": 1}, ['{"a": "1"}', "[]"]),
    (dict, '{"a": null}', {"a": None}, ["1"]),
    (dict[str, list[Point]], '{"p": [{"x": 1, "y": false}]}', {"p": [Point(1, False)]}, ['{"p": [{}]}']),
    (typing.Mapping[str, bool], '{"a": true}', {"a": True}, ['{"a": 1}']),
    (Point, '{"x": 3}', Point(3), ['{"y": true}', '{"x": 3, "z": 1}', "[]"]),
    (
        Shape,
        '{"name": "red", "corners": [{"x": 1}], "at": "2024-02-29"}',
        Shape(Color.RED, [Point(1)], datetime.date(2024, 2, 29)),
        ['{"name": "green"}'],
    ),
    (Tree, '{"leaf": 1, "below": {"leaf": 2}}', Tree(1, Tree(2)), ['{"leaf": 1, "below": {}}']),
    (Pair, "[1]", Pair(1), ["[]", "[1, 2]"]),
    (Movie, '{"year": 1999, "seen": true}', {"year": 1999, "seen": True}, ['{"year": 1999}']),
    (Partial, '{"sub": {"year": 1, "seen": false}}', {"sub": {"year": 1, "seen": False}}, ['{"other": 1}']),
    (Empty, "{}", {}, ['{"a": 1}']),
    (re.compile("[ab]{2}"), "ba", "ba", ["b", '"ab"']),
    (re.compile("a b # note", re.VERBOSE | re.IGNORECASE), "Ab", "Ab", ["a b"]),
    (list[Union[Point, None]], '[null, {"x": 1}]', [None, Point(1)], ["[1]"]),
    (Annotated[int, "a note"], "5", 5, ["5.5"]),
    (Annotated[Literal["a"], "a note"], "a", "a", ["b"]),
    (Union[list[int], dict[str, int]], '{"a": 1}', {"a": 1}, ['{"a": "b"}']),
    (tuple[Color, Optional[Level]], '["red", null]', (Color.RED, None), ['["red", 3]']),
    (dict[str, Union[int, list[bool]]], '{"k": [true]}', {"k": [True]}, ['{"k": [1]}']),
]

if NotRequired is not None:
    Some = AnyTypedDict("Some", {"a": int, "b": NotRequired[Color]})
    TABLE.append((Some, '{"a": 1, "b": "red"}', {"a": 1, "b": Color.RED}, ['{"b": "red"}']))
if sys.version_info >= (3, 10):
    TABLE.append((int | None, "7", 7, ["7.5"]))

#: Those that need no pydantic.
STANDARD = list(TABLE)

if pydantic:

    class User(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=4)
        age: int = pydantic.Field(ge=0, lt=150)
        tags: set[Literal["x", "y"]] = set()
        home: Optional["User"] = None

    class Open(pydantic.BaseModel, extra="allow"):
        a: int

    class Named(pydantic.BaseModel):
        inner: bool = pydantic.Field(alias="in")

    class Cat(pydantic.BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(pydantic.BaseModel):
        kind: Literal["dog"]

    Field = pydantic.Field
    TABLE += [
        (
            User,
            '{"name": "Ann", "age": 3, "tags": ["y"]}',
            User(name="Ann", age=3, tags={"y"}),
            ['{"name": "Annie", "age": 3}', '{"name": "A", "age": 150}'],
        ),
        (Open, '{"a": 1, "b": 2}', Open(a=1, b=2), ['{"b": 1}']),
        (Named, '{"in": true}', Named(**{"in": True}), ['{"inner": true}']),
        (Annotated[Union[Cat, Dog], Field(discriminator="kind")], '{"kind": "dog"}', Dog(kind="dog"), ['{"kind": "cat"}']),
        (Annotated[int, Field(gt=2, multiple_of=5)], "10", 10, ["0", "11"]),
        (Annotated[str, Field(pattern="^[a-c]+$")], '"abc"', "abc", ['"d"', '""']),
        (Annotated[list[int], Field(min_length=2, max_length=3)], "[1, 2]", [1, 2], ["[1]", "[1, 2, 3, 4]"]),
        (pydantic.UUID4, '"12345678-1234-4678-9234-567812345678"', uuid.UUID("12345678-1234-4678-9234-567812345678"), [f'"{ID}"']),
        (decimal.Decimal, "1.25", decimal.Decimal("1.25"), ['"1.25"']),
        (bytes, '"ab"', b"ab", ["1"]),
        (pydantic.FiniteFloat, "1.5", 1.5, ['"x"']),
        (pydantic.JsonValue, "[1]", [1], ["x"]),
        (dict[datetime.date, int], '{"2024-02-29": 1}', {datetime.date(2024, 2, 29): 1}, ['{"x": 1}']),
        (pydantic.AwareDatetime, '"2024-02-29T13:05:07Z"', D, ["1"]),
    ]


def name(case):
    return _types.name_of(case[0])[:60] if isinstance(case, tuple) else None


#: Tokens of a single byte and some others, of which a model likes those that end something, so that outputs are short.
ENDS = [b'"', b"}", b"]", b"]}", b'"}']


@pytest.fixture(scope="module")
def short():
    return unskew.Tokenizer.from_vocabulary([bytes([b]) for b in range(256)] + ENDS[3:] + ["<end>"], eos=[258])


@pytest.fixture(scope="module")
def of_short(short):
    return unskew.Compiler(short)


def model(batch):
    row = np.zeros(259, np.float32)
    row[[ord('"'), ord("}"), ord("]"), 256, 257, 258]] = 4
    return np.tile(row, (len(batch), 1))


def written(value):
    """A value as JSON's values, as a program would write it."""
    if pydantic and isinstance(value, pydantic.BaseModel):
        return written(value.model_dump(by_alias=True, exclude_unset=True))
    if dataclasses.is_dataclass(value):
        return {field.name: written(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else written(key): written(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [written(one) for one in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode()
    return float(value) if isinstance(value, decimal.Decimal) else str(value) if isinstance(value, uuid.UUID) else value


def accepts(compiled, tok, text):
    return compiled.rejection(tok.encode(text)) is None


def test_the_table_is_large():
    assert len(TABLE) >= (70 if pydantic else 57)


@pytest.mark.parametrize("case", TABLE, ids=name)
def test_values_and_outputs(case, tok, compiler):
    kind, text, value, wrong = case
    constraint = unskew.Constraint.of(kind)
    compiled = compiler.compile(kind)
    assert accepts(compiled, tok, text), compiled.rejection(tok.encode(text))
    read = constraint.value_of(text)
    assert read == value and type(read) is type(value)
    for other in wrong:
        assert not accepts(compiled, tok, other), other
    try:
        again = pickle.loads(pickle.dumps(constraint))
    except AttributeError:
        # Of pydantic's notes some are no values that pickle knows.
        assert pydantic and "FieldInfo" in str(kind)
        return
    assert again == constraint and hash(again) == hash(constraint) and again.value_of(text) == value


@pytest.mark.parametrize("case", TABLE, ids=name)
def test_draws_are_values(case, short, of_short):
    kind = case[0]
    draws = list(unskew.sample(model, kind, short, n=10, sampler="masked", seed=1, max_tokens=600))
    values = [draw.value for draw in draws if draw.finish == "stop"]
    assert len(values) >= 7
    # A value that a program writes is an output too, and reads back as itself.
    constraint, is_bare = unskew.Constraint.of(kind), isinstance(kind, re.Pattern) or _types.texts_of(kind) is not None
    compiled, compared = of_short.compile(constraint), 0
    for value in values:
        # Infinity is no JSON, and half a character no text.
        if "inf" in str(value) or "\ufffd" in str(value):
            continue
        text = written(value) if is_bare else json.dumps(written(value), ensure_ascii=False)
        assert accepts(compiled, short, text), (text, compiled.rejection(short.encode(text)))
        again = constraint.value_of(text)
        assert again == value and type(again) is type(value)
        compared += 1
    assert compared >= 4


def test_draws_of_the_embedded_tokenizer(tok):
    def rows(batch):
        return np.zeros((len(batch), tok.vocab_size), np.float32)

    for kind, of in [(Point, Point), (Color, Color), (tuple[int, bool], tuple), (Optional[Level], (Level, type(None)))]:
        draws = unskew.sample(rows, kind, tok, n=5, sampler="masked", seed=3, max_tokens=400)
        assert all(isinstance(draw.value, of) for draw in draws if draw.finish == "stop")


REFUSED = [
    (complex, "complex"),
    (object(), None),
    (typing.Callable[[int], int], "Callable"),
    (dict[int, str], "dict"),
    (Union[int, typing.Callable[[], int]], "Callable"),
    (list[type], "type"),
    (len, "len"),
    (re.compile(b"a"), None),
    (re.compile("a", re.DEBUG), None),
    (range, "range"),
]


@pytest.mark.parametrize("kind, place", REFUSED, ids=lambda value: str(value)[:40])
def test_what_has_no_exact_schema(kind, place):
    class Arbitrary:
        pass

    for refused in (kind, Arbitrary):
        with pytest.raises(unskew.ConstraintError, match="has no exact schema: .+; ") as error:
            unskew.Constraint.of(refused)
        assert error.value.place
    if place:
        with pytest.raises(unskew.ConstraintError) as error:
            unskew.Constraint.of(kind)
        assert place in error.value.place


@pytest.mark.skipif(pydantic is not None, reason="pydantic is there")
def test_the_way_out_without_pydantic():
    for kind in (bytes, decimal.Decimal, complex):
        with pytest.raises(unskew.ConstraintError, match="pip install pydantic"):
            unskew.Constraint.of(kind)


def test_bounds_of_annotated_types(tok, compiler):
    bounds = pytest.importorskip("annotated_types")
    digit = compiler.compile(Annotated[int, bounds.Ge(0), bounds.Lt(10)])
    assert accepts(digit, tok, "9") and not accepts(digit, tok, "10") and not accepts(digit, tok, "-1")
    short = compiler.compile(Annotated[list[int], bounds.Len(1, 2)])
    assert accepts(short, tok, "[1]") and not accepts(short, tok, "[]") and not accepts(short, tok, "[1, 2, 3]")


@pytest.mark.skipif(pydantic is None, reason="the types are pydantic's")
def test_what_pydantic_says_inexactly():
    for kind in [
        datetime.timedelta,
        pydantic.HttpUrl,
        pydantic.PastDate,
        pydantic.NaiveDatetime,
        pydantic.Json[int],
        pydantic.Base64Bytes,
        pydantic.FilePath,
        Annotated[bytes, pydantic.Field(max_length=3)],
        Annotated[str, pydantic.Field(pattern=r"\bx")],
        Annotated[str, pydantic.Field(pattern=r"(a)\1")],
        Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=2)],
        Annotated[decimal.Decimal, pydantic.Field(max_digits=30)],
        typing.Iterable[int],
        re.Pattern,
    ]:
        with pytest.raises(unskew.ConstraintError, match="has no exact schema"):
            unskew.Constraint.of(kind)


@pytest.mark.skipif(pydantic is None, reason="the bounds are pydantic's")
@pytest.mark.parametrize(
    "bounds",
    [
        {"max_digits": 4, "decimal_places": 2},
        {"max_digits": 3},
        {"max_digits": 2, "decimal_places": 3},
        {"max_digits": 4, "decimal_places": 0},
        {"decimal_places": 2, "ge": 0},
        {"max_digits": 5, "gt": 1.5, "lt": 1000},
    ],
    ids=str,
)
def test_digits_of_decimals_are_those_that_pydantic_counts(bounds, byte_tok):
    kind = Annotated[decimal.Decimal, pydantic.Field(**bounds)]
    compiled, adapter = unskew.Compiler(byte_tok).compile(kind), pydantic.TypeAdapter(kind)
    rng, taken = random.Random(1), 0
    for _ in range(800):
        fraction = rng.choice(["", "." + str(rng.randint(0, 10 ** rng.randint(1, 5)))])
        text = rng.choice(["", "-"]) + str(rng.randint(0, 10 ** rng.randint(0, 5))) + fraction
        number = float(text)
        if number == 0 and text != "0" or number == int(number) and fraction:
            # Other spellings of a whole number are none that a model is asked to write.
            continue
        try:
            adapter.validate_json(text)
            is_valid = True
        except pydantic.ValidationError:
            is_valid = False
        assert accepts(compiled, byte_tok, text) == is_valid, text
        taken += is_valid
    assert 10 < taken < 790


@pytest.mark.skipif(pydantic is None, reason="validators are pydantic's")
def test_a_rule_that_the_schema_does_not_say(tok):
    def must_be_even(value):
        if value % 2:
            raise ValueError("not even")
        return value

    Even = Annotated[int, pydantic.AfterValidator(must_be_even)]
    Holder = pydantic.create_model("Holder", numbers=(list[Even], ...))
    constraint = unskew.Constraint.of(Holder)
    assert constraint.value_of('{"numbers": [2]}').numbers == [2]
    with pytest.raises(unskew.ConstraintError, match=r"no Holder at /numbers/1: .*not even \(rule `must_be_even`\)") as error:
        constraint.value_of('{"numbers": [2, 3]}')
    assert error.value.place == "/numbers/1"


def test_where_a_type_stands_for_a_constraint(short):
    report = unskew.audit(model, Literal["a", "b"], short, n=5, seed=1)
    assert len(report.lines) == 2
    walks = unskew.Faithful(unskew.Compiler(short))
    assert walks.begin(Color, [1], seed=1, max_tokens=9).accepted is None
    assert unskew.Constraint.lark("start: @n", grammars={"n": int}).value_of("1") == "1"
    for wrong in ("[a-z]", None):
        with pytest.raises(TypeError):
            unskew.Compiler(short).compile(wrong)
    for value in ({"type": "integer"}, 3):
        with pytest.raises(unskew.ConstraintError, match="is a value and no type"):
            unskew.sample(model, value, short)


def test_compositions(tok, compiler):
    either = unskew.Constraint.of(int) | Color | "none"
    compiled = compiler.compile(either)
    for text, value in [("12", 12), ("red", Color.RED), ("none", "none")]:
        assert accepts(compiled, tok, text) and either.value_of(text) == value
    assert not accepts(compiled, tok, '"red"')
    # The type of a union is the union of the types, whatever their order.
    for both in (unskew.Constraint.of(int) | str, str | unskew.Constraint.of(int), unskew.Constraint.any_of([str, int])):
        assert both.value_of('"1"') == "1" and both.value_of("1") == 1
    after = "Answer: " + unskew.Constraint.of(int) + "."
    assert accepts(compiler.compile(after), tok, "Answer: 3.") and not accepts(compiler.compile(after), tok, "3.")
    assert after.value_of("Answer: 3.") == "Answer: 3."
    limited = unskew.Constraint.of(Color).with_end("model").with_limits({"grammar.nodes": 1000})
    assert limited.value_of("red") is Color.RED
    with pytest.raises(unskew.ConstraintError, match="none of 'red'"):
        limited.value_of("green")
    with pytest.raises(TypeError):
        unskew.Constraint.of(int) | None


def test_a_set_to_exclude_is_no_part(tmp_path, compiler):
    (tmp_path / "items.txt").write_text("a\nb\n")
    with pytest.raises(unskew.ConstraintError, match="no part of another constraint"):
        compiler.compile(unskew.Constraint.exclude_set(tmp_path / "items.txt") | int)


def test_outputs_that_are_cut_off_have_no_value(short):
    draws = list(unskew.sample(model, list[int], short, n=20, sampler="masked", seed=1, max_tokens=2))
    cut = [draw for draw in draws if draw.finish == "length"]
    assert cut
    for draw in cut:
        with pytest.raises(unskew.SampleError, match="cut off after 2 tokens"):
            draw.value
    (text,) = unskew.sample(model, unskew.Constraint.choice(["a"]), short, n=1, seed=1)
    assert text.value == "a"
    with pytest.raises(unskew.OptionError, match="no calls"):
        text.calls


def test_pydantic_and_the_small_schemas_agree(tok):
    """Both readers of the standard library's types take the same values, and their schemas the same texts."""
    pytest.importorskip("pydantic")
    from unskew import _plain

    compiler = unskew.Compiler(tok)
    compared = 0
    for kind, text, value, wrong in STANDARD:
        if isinstance(kind, re.Pattern):
            continue
        schema, read = _plain.schema_of(kind)
        compiled = compiler.compile(unskew.Constraint.json_schema(schema))
        text = json.dumps(text) if _types.texts_of(kind) is not None else text
        assert accepts(compiled, tok, text) and read(text) == value, kind
        for other in wrong:
            if _types.texts_of(kind) is None:
                assert not accepts(compiled, tok, other), (kind, other)
        compared += 1
    assert compared >= 50


def a_type(rng, depth):
    """A type at random."""
    leaves = [int, float, bool, str, type(None), datetime.date, datetime.datetime, uuid.UUID, Literal["x", 1], Color, Mixed, Point, Pair]

    def inner():
        return a_type(rng, depth - 1)

    made = [
        lambda: list[inner()],
        lambda: dict[str, inner()],
        lambda: Optional[inner()],
        lambda: Union[inner(), inner()],
        lambda: tuple[inner(), inner()],
        lambda: tuple[inner(), ...],
        lambda: dataclasses.make_dataclass("Made", [("a", inner()), ("b", Optional[inner()], None)]),
        lambda: AnyTypedDict("Made", {"a": inner(), "b c": inner()}),
    ]
    if pydantic:
        made.append(lambda: pydantic.create_model("Model", a=(inner(), ...), b=(Optional[inner()], None)))
    return rng.choice(made)() if depth and rng.random() < 0.8 else rng.choice(leaves)


def test_types_at_random(short):
    rng, values = random.Random(5), 0
    for seed in range(150):
        kind = a_type(rng, 3)
        for draw in unskew.sample(model, kind, short, n=4, sampler="masked", seed=seed, max_tokens=500):
            if draw.finish == "stop":
                assert unskew.Constraint.of(kind).value_of(draw.text) == draw.value
                values += 1
    assert values >= 550
