"""Types as constraints: what `Constraint.of` makes of a type, and what reads its outputs.

One rule says how a value is written. A list of texts (a `Literal` or an `Enum` of strings alone) and a compiled pattern are written as they
are, without quotes; a value of any other type is JSON, whatever is inside of it.

Pydantic, where it is installed, knows the schema of a type and validates its values; the standard library's types have a small schema and a
reader of their own otherwise (`_plain`). What a schema does not say exactly is refused here, by name.
"""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from ._errors import ConstraintError, OptionError
from ._unskew import Constraint

#: From the text of an output to a value.
Read = Callable[[str], Any]


class Reader:
    """What reads the outputs of a constraint that was made of a type. `texts` are outputs that stand for themselves, by what they stand for;
    another text is JSON of the type `json`, or any text where `is_free`."""

    def __init__(self, json: Any = None, *, has_json: bool = True, texts: dict[str, Any] | None = None, is_free: bool = False) -> None:
        self.json, self.has_json, self.texts, self.is_free = json, has_json, texts or {}, is_free

    def value(self, text: str) -> Any:
        """The value of an output. Raises `ConstraintError` for what is none."""
        if text in self.texts:
            return self.texts[text]
        if not self.has_json:
            if self.is_free:
                return text
            raise ConstraintError(f"{text!r} is none of {', '.join(map(repr, self.texts))}")
        try:
            return schema_of(self.json)[1](text)
        except ConstraintError:
            if self.is_free:
                return text
            raise

    def calls(self, text: str) -> Any:
        raise OptionError("there are no calls: the constraint is none of `Constraint.tools`")


def of(kind: Any) -> Constraint:
    """The constraint of a type."""
    if isinstance(kind, Constraint):
        return kind
    if isinstance(kind, re.Pattern):
        return Constraint.regex(pattern_of(kind))._read_by(Reader(has_json=False, is_free=True))
    texts = texts_of(kind)
    if texts is not None:
        return Constraint.choice(list(texts))._read_by(Reader(has_json=False, texts=texts))
    return Constraint.json_schema(schema_of(kind)[0])._read_by(Reader(kind))


def any_of(readers: Sequence[Reader | None]) -> Reader:
    """The reader of one of several constraints, of which those without a type have none: the value of the first type that takes the text."""
    kinds: list[Any] = []
    texts: dict[str, Any] = {}
    for reader in readers:
        if reader is not None and not isinstance(reader, Reader):
            raise ConstraintError("calls of tools are a whole output, and no part of another constraint: give `response_format` to `tools`")
        if reader is not None:
            texts = {**reader.texts, **texts}
            kinds += [reader.json] if reader.has_json else []
    is_free = any(reader is None or reader.is_free for reader in readers)
    return Reader(typing.Union[tuple(kinds)] if kinds else None, has_json=bool(kinds), texts=texts, is_free=is_free)


def restored(json: str, reader: Any) -> Constraint:
    """The inverse of pickling."""
    return Constraint.from_json(json)._read_by(reader)


_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x", re.ASCII: "a"}


def pattern_of(pattern: re.Pattern[Any]) -> str:
    """The text of a compiled pattern, with its flags inside."""
    if not isinstance(pattern.pattern, str):
        raise refused(pattern, "it is a pattern of bytes", "compile a `str`")
    unknown = pattern.flags & ~sum(_FLAGS) & ~re.UNICODE
    if unknown:
        raise refused(pattern, f"it has the flags {re.RegexFlag(unknown)!r}", "leave them out")
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    # A pattern may have said its flags itself.
    return f"(?{flags}){pattern.pattern}" if flags and not pattern.pattern.startswith("(?" + flags) else pattern.pattern


def texts_of(kind: Any) -> dict[str, Any] | None:
    """The values of a type of texts alone by their texts, for a `Literal`, an `Enum` or a union of these; None for other types."""
    kind = bare(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    values: dict[Any, Any]
    if origin is typing.Literal:
        values = {value.value if isinstance(value, enum.Enum) else value: value for value in arguments}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = {member.value if _is_json(member.value) else member: member for member in kind}
    elif is_union(origin):
        values = {}
        for argument in arguments:
            texts = texts_of(argument)
            if texts is None:
                return None
            values = {**texts, **values}
    else:
        return None
    return values if values and all(type(text) is str or isinstance(text, str) for text in values) else None


def _is_json(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None)))


def is_union(origin: Any) -> bool:
    return origin is typing.Union or origin is getattr(types, "UnionType", None)


def bare(kind: Any) -> Any:
    """A type without the names and notes around it."""
    while True:
        if typing.get_origin(kind) is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        else:
            return kind


def name_of(kind: Any) -> str:
    """A type as messages show it."""
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__qualname__
    return str(kind).replace("typing.", "")


def refused(kind: Any, why: str, way_out: str) -> ConstraintError:
    """Why a type is no constraint. Its place is the type."""
    name = name_of(kind)
    return ConstraintError(f"{name} has no exact schema: {why}; {way_out}", name)


#: Each type once, as validators cost more than outputs. Types that have no hash are made anew.
_known: dict[Any, tuple[dict[str, Any], Read]] = {}


def schema_of(kind: Any) -> tuple[dict[str, Any], Read]:
    """The JSON Schema of a type, and what reads its values."""
    try:
        # `Literal[1]` and `Literal[True]` are equal, and so are types with them inside.
        key = (kind, str(kind))
        if key not in _known:
            if len(_known) >= 1024:
                _known.clear()
            _known[key] = _made(kind)
        return _known[key]
    except TypeError:
        return _made(kind)


def _made(kind: Any) -> tuple[dict[str, Any], Read]:
    if inspect.isroutine(kind):
        raise refused(kind, "it is a function", "`Constraint.tools` takes functions")
    if isinstance(kind, (dict, list, tuple, str, bytes, int, float)):
        raise ConstraintError(f"{kind!r} is a value and no type; `Constraint.json_schema` takes a schema, and `Constraint.choice` texts")
    if pydantic_is_there():
        from . import _pydantic

        return _pydantic.schema_of(kind)
    from . import _plain

    return _plain.schema_of(kind)


def pydantic_is_there() -> bool:
    try:
        import pydantic
    except ImportError:
        return False
    return int(pydantic.VERSION.split(".")[0]) >= 2


#: Keywords of a schema whose values are a schema, a list of them, and schemas by names.
_ONE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs")


def exact(schema: Any, kind: Any) -> Any:
    """A schema that says what the type's reader takes, of one that says a little less. An object that declares members has no others: the
    reader would drop them. Python has no year 0 and no leap second."""
    if not isinstance(schema, dict):
        return schema
    if "contentSchema" in schema:
        raise refused(kind, "the content of a string has a schema of its own", "take the type of the content, which is JSON itself")
    schema = dict(schema)
    for name in _ONE:
        if name in schema:
            schema[name] = exact(schema[name], kind)
    for name in _LISTS:
        if name in schema:
            schema[name] = [exact(part, kind) for part in schema[name]]
    for name in _NAMED:
        if name in schema:
            schema[name] = {key: exact(part, kind) for key, part in schema[name].items()}
    if "properties" in schema and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    form = schema.get("format")
    if form in _INEXACT:
        raise refused(kind, f"no schema says the whole form of the format `{form}`", "take a `str` with a pattern")
    if form in _FORMS and "pattern" not in schema:
        schema["format"], schema["pattern"] = _FORMS[form]
    return schema


#: Formats whose texts a reader does not take all, and what is left.
_FORMS = {
    "date": ("date", "^(?!0000)"),
    "date-time": ("date-time", "^(?!0000)[^Tt]*[Tt][0-9]{2}:[0-9]{2}:[0-5]"),
    "time": ("time", "^[0-9]{2}:[0-9]{2}:[0-5]"),
    **{f"uuid{version}": ("uuid", f"^[^-]*-[^-]*-{version}[^-]*-[89abAB]") for version in range(1, 9)},
}

#: Formats of pydantic that are names alone, or less than its validators want.
_INEXACT = {
    *("ipv4network", "ipv6network", "ipv4interface", "ipv6interface", "ipvanynetwork", "ipvanyinterface", "ipvanyaddress"),
    *("base64", "base64url", "regex", "zoneinfo", "file-path", "directory-path", "uri", "multi-host-uri", "duration", "json-string"),
    *("email", "name-email", "color", "fraction"),
}
