"""Types of the standard library without pydantic: their schemas, and what reads their values.

The schemas are those that pydantic makes, but for titles. A type that needs more than this is refused with the way out: `pip install pydantic`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import json
import re
import typing
import uuid
from typing import Any, Callable

from ._errors import ConstraintError
from ._types import Read, bare, exact, is_union, name_of, refused

#: From a value of JSON to a value of the type. Raises `ValueError` for what is none.
_Take = Callable[[Any], Any]

_WAY_OUT = "`pip install pydantic`, which knows more types, or take another type of JSON's values"


def schema_of(kind: Any) -> tuple[dict[str, Any], Read]:
    """The JSON Schema of a type, and what reads its values."""
    made = _Types()
    schema, take = made.of(kind)
    if made.definitions:
        schema = {**schema, "$defs": made.definitions}

    def read(text: str) -> Any:
        try:
            return take(json.loads(text))
        except ValueError as error:
            raise ConstraintError(f"the text is no {name_of(kind)}: {error}; a rule of the type that its schema does not say") from error

    return exact(schema, kind), read


def _scalar(kind: type, name: str) -> _Take:
    def take(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {name}")
        return value

    return take


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _text(of: Callable[[str], Any]) -> _Take:
    take = _scalar(str, "string")
    return lambda value: of(take(value))


def _clock(of: Callable[[str], Any]) -> _Take:
    # Python 3.10 reads neither `Z` nor fractions of other lengths than 3 and 6.
    def take(text: str) -> Any:
        text = re.sub(r"\.([0-9]+)", lambda match: "." + match[1][:6].ljust(6, "0"), text.upper())
        return of(text.replace("Z", "+00:00"))

    return _text(take)


_SCALARS: dict[Any, tuple[dict[str, Any], _Take]] = {
    int: ({"type": "integer"}, _scalar(int, "integer")),
    float: ({"type": "number"}, _float),
    bool: ({"type": "boolean"}, _scalar(bool, "boolean")),
    str: ({"type": "string"}, _scalar(str, "string")),
    None: ({"type": "null"}, _scalar(type(None), "null")),
    type(None): ({"type": "null"}, _scalar(type(None), "null")),
    Any: ({}, lambda value: value),
    datetime.date: ({"type": "string", "format": "date"}, _text(datetime.date.fromisoformat)),
    datetime.datetime: ({"type": "string", "format": "date-time"}, _clock(datetime.datetime.fromisoformat)),
    datetime.time: ({"type": "string", "format": "time"}, _clock(datetime.time.fromisoformat)),
    uuid.UUID: ({"type": "string", "format": "uuid"}, _text(uuid.UUID)),
}
_LISTS = {list: list, set: set, frozenset: frozenset, collections.abc.Sequence: list, collections.abc.Set: set}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

#: Bounds of `annotated_types`, by their attributes.
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf"}
_LENGTHS = {"min_length": ("minLength", "minItems", "minProperties"), "max_length": ("maxLength", "maxItems", "maxProperties")}


class _Types:
    """The schemas of one type and of the types in it."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        #: Classes by their names, which may be those of others.
        self.named: dict[type, tuple[str, list[_Take]]] = {}

    def of(self, kind: Any) -> tuple[dict[str, Any], _Take]:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            schema, take = self.of(arguments[0])
            return {**schema, **self._bounds(kind, schema, arguments[1:])}, take
        if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
            return self.of(arguments[0])
        kind = bare(kind)
        if isinstance(kind, collections.abc.Hashable) and kind in _SCALARS:
            schema, take = _SCALARS[kind]
            return dict(schema), take
        if origin is typing.Literal:
            return self._listed({getattr(value, "value", value): value for value in arguments}, kind)
        if is_union(origin):
            return self._union([self.of(argument) for argument in arguments], kind)
        if origin in _LISTS or kind in _LISTS:
            return self._list(origin or kind, arguments)
        if origin is tuple or kind is tuple:
            return self._tuple(arguments)
        if origin in _DICTS or kind in _DICTS:
            if arguments and bare(arguments[0]) is not str:
                raise refused(kind, "the names of an object are strings", "take `dict[str, ...]`")
            value, take = self.of(arguments[1]) if arguments else ({}, _SCALARS[Any][1])
            schema = {"type": "object", "additionalProperties": value if value else True}
            return schema, lambda read: {name: take(one) for name, one in _scalar(dict, "object")(read).items()}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._listed({member.value: member for member in kind}, kind)
        if isinstance(kind, type) and origin is None:
            return self._class(kind)
        raise refused(kind, "it is no type of JSON's values", _WAY_OUT)

    @staticmethod
    def _bounds(kind: Any, schema: dict[str, Any], notes: tuple[Any, ...]) -> dict[str, Any]:
        bounds: dict[str, Any] = {}
        for note in notes:
            known = {name: getattr(note, name, None) for name in (*_BOUNDS, *_LENGTHS)}
            known = {name: value for name, value in known.items() if value is not None}
            if not known and type(note).__module__.split(".")[0] == "annotated_types":
                raise refused(kind, f"no schema says {note!r}", _WAY_OUT)
            for name, value in known.items():
                if name in _BOUNDS and schema.get("type") in ("integer", "number"):
                    bounds[_BOUNDS[name]] = value
                elif name in _LENGTHS and schema.get("type") in ("string", "array", "object"):
                    bounds[_LENGTHS[name][("string", "array", "object").index(schema["type"])]] = value
                elif (name, value) != ("min_length", 0):
                    raise refused(kind, f"`{name}` is no bound of this type", _WAY_OUT)
        return bounds

    @staticmethod
    def _listed(values: dict[Any, Any], kind: Any) -> tuple[dict[str, Any], _Take]:
        if not all(isinstance(value, (str, int, float, type(None))) for value in values) or not values:
            raise refused(kind, "its values are no texts, numbers, booleans or null", _WAY_OUT)
        pairs = [(type(value), value, member) for value, member in values.items()]

        def take(value: Any) -> Any:
            for of, one, member in pairs:
                if one == value and (issubclass(of, type(value)) or type(value) in (int, float) and of in (int, float)):
                    return member
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, values))}")

        return {"enum": [str(one) if isinstance(one, str) else one for one in values]}, take

    @staticmethod
    def _union(parts: list[tuple[dict[str, Any], _Take]], kind: Any) -> tuple[dict[str, Any], _Take]:
        def take(value: Any) -> Any:
            for _, one in parts:
                try:
                    return one(value)
                except ValueError:
                    continue
            raise ValueError(f"{value!r} is no {name_of(kind)}")

        return {"anyOf": [schema for schema, _ in parts]}, take

    def _list(self, of: Any, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], _Take]:
        item, take = self.of(arguments[0]) if arguments else ({}, _SCALARS[Any][1])
        schema: dict[str, Any] = {"type": "array", "items": item if item else True}
        if _LISTS[of] is not list:
            schema["uniqueItems"] = True
        return schema, lambda value: _LISTS[of](take(one) for one in _scalar(list, "array")(value))

    def _tuple(self, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], _Take]:
        if not arguments or arguments[1:] == (...,):
            schema, take = self._list(list, arguments[:1])
            return schema, lambda value: tuple(take(value))
        return self._places([self.of(argument) for argument in arguments], len(arguments), lambda *values: tuple(values))

    @staticmethod
    def _places(parts: list[tuple[dict[str, Any], _Take]], least: int, of: Callable[..., Any]) -> tuple[dict[str, Any], _Take]:
        schemas = [schema for schema, _ in parts]
        schema = {"type": "array", "prefixItems": schemas, "items": False, "minItems": least, "maxItems": len(parts)}

        def take(value: Any) -> Any:
            if not least <= len(_scalar(list, "array")(value)) <= len(parts):
                raise ValueError(f"there are {len(value)} items, and not {len(parts)}")
            return of(*(one(item) for (_, one), item in zip(parts, value)))

        return schema, take

    def _class(self, kind: type) -> tuple[dict[str, Any], _Take]:
        """A class with members: by reference, since it may be inside of itself."""
        if kind not in self.named:
            name = kind.__name__ if kind.__name__ not in self.definitions else f"{kind.__name__}_{len(self.named)}"
            takes: list[_Take] = []
            self.named[kind] = (name, takes)
            self.definitions[name] = {}
            self.definitions[name], take = self._members(kind)
            takes.append(take)
        name, takes = self.named[kind]
        return {"$ref": f"#/$defs/{name}"}, lambda value: takes[0](value)

    def _members(self, kind: Any) -> tuple[dict[str, Any], _Take]:
        is_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
        # `TypedDict` of typing or of typing_extensions.
        is_typed = issubclass(kind, dict) and hasattr(kind, "__required_keys__")
        if not (is_tuple or is_typed or dataclasses.is_dataclass(kind)):
            raise refused(kind, "it is an arbitrary class", _WAY_OUT)
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except NameError as error:
            raise refused(kind, str(error), "define the type before") from error
        if is_tuple:
            named: Any = kind
            parts = [self.of(hints[name]) for name in named._fields]
            return self._places(parts, len(parts) - len(named._field_defaults), kind)
        of: Callable[..., Any] = dict
        required = set(getattr(kind, "__required_keys__", ()))
        if dataclasses.is_dataclass(kind):
            of, missing = typing.cast("Callable[..., Any]", kind), dataclasses.MISSING
            fields = [one for one in dataclasses.fields(kind) if one.init]
            if any(isinstance(hint, dataclasses.InitVar) for hint in hints.values()):
                raise refused(kind, "it has an `InitVar`", _WAY_OUT)
            hints = {one.name: hints[one.name] for one in fields}
            required = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        members = {name: self.of(hint) for name, hint in hints.items()}
        properties = {name: schema for name, (schema, _) in members.items()}
        order = [name for name in members if name in required]

        def take(value: Any) -> Any:
            wrong = (_scalar(dict, "object")(value).keys() - members.keys()) | (required - value.keys())
            if wrong:
                raise ValueError(f"{sorted(wrong)[0]!r} is missing, or is no member of {kind.__name__}")
            return of(**{name: members[name][1](one) for name, one in value.items()})

        return {"type": "object", "properties": properties, "required": order, "additionalProperties": False}, take
