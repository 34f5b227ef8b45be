"""Types by pydantic: the schema that it makes of a type, and its validator.

Pydantic's schemas are for readers: of some types they allow texts that its validator refuses (`complex` is any string, a date in the past any
date), and they leave out an alternative that has none. Such a type is refused here. Validators that are functions of the user say nothing
to a schema; a text that one refuses is an error of `value`, by the name of the function.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from ._errors import ConstraintError
from ._types import Read, exact, name_of, refused

_WAY_OUT = "take a model, a dataclass or another type of JSON's values"


#: Classes and boundaries of patterns that have more characters in a schema than in pydantic.
_CLASSES = re.compile(r"(?<!\\)(?:\\\\)*(\\[bBWD])")


class _Inexact(Exception):
    """A part of a type whose schema would allow more."""


class _Schemas(GenerateJsonSchema):
    """Pydantic's schemas where they say what its validators take."""

    ignored_warning_kinds = set()

    def emit_warning(self, kind: Any, detail: str) -> None:
        # A default that is no JSON is no part of the constraint.
        if kind == "skipped-choice":
            raise _Inexact(f"an alternative has no schema ({detail})")

    def complex_schema(self, schema: Any) -> Any:
        raise _Inexact("a complex number is a string of its own form")

    def timedelta_schema(self, schema: Any) -> Any:
        raise _Inexact("a duration has bounds that no schema says: take seconds, which are an `int` or a `float`")

    def url_schema(self, schema: Any) -> Any:
        raise _Inexact("a URL has a form that no schema says: take a `str` with a pattern")

    multi_host_url_schema = url_schema

    def is_subclass_schema(self, schema: Any) -> Any:
        raise _Inexact("a class is no value of JSON")

    def decimal_schema(self, schema: Any) -> Any:
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        # A number, and not a text with one in it.
        made = self.float_schema({**schema, "type": "float"})
        if digits is None and places is None:
            return made
        if max(digits or 0, places or 0) > 15:
            raise _Inexact("a reader of JSON keeps 15 digits of a number, and `max_digits` or `decimal_places` is more")
        if digits is None:
            return {**made, "multipleOf": 10**-places if places else 1}
        ways = range(digits + 1) if places is None else [min(digits, places)]
        whole = {way: digits - way if places is None else max(0, digits - places) for way in ways}
        parts: list[dict[str, Any]] = []
        for way in ways:
            step = Decimal(10) ** -way
            most = Decimal(10) ** whole[way] - step
            parts.append({"multipleOf": float(step) if way else 1, "minimum": float(-most), "maximum": float(most)})
            if whole[way] == 0 and places is not None:
                # The digit of 0 stands before the point.
                parts[-1]["not"] = {"const": 0}
        return {**made, "anyOf": parts}

    def float_schema(self, schema: Any) -> Any:
        made = super().float_schema(schema)
        if schema.get("allow_inf_nan") is False:
            made.setdefault("minimum", -1.7e308)
            made.setdefault("maximum", 1.7e308)
        return made

    def bytes_schema(self, schema: Any) -> Any:
        if schema.get("min_length") or schema.get("max_length") is not None:
            raise _Inexact("no schema counts the bytes of a string")
        return super().bytes_schema(schema)

    def generator_schema(self, schema: Any) -> Any:
        raise _Inexact("a generator is read later, where nothing looks at its items: take a `list`")

    def str_schema(self, schema: Any) -> Any:
        named = _CLASSES.search(getattr(schema.get("pattern"), "pattern", schema.get("pattern")) or "")
        if named:
            raise _Inexact(f"`{named[1]}` of a pattern is about ASCII in a schema, and about Unicode in pydantic: write the characters out")
        changes = [name for name in ("strip_whitespace", "to_lower", "to_upper") if schema.get(name)]
        if changes and any(schema.get(name) for name in ("pattern", "min_length", "max_length")):
            raise _Inexact(f"`{changes[0]}` changes a string before its other rules are looked at")
        return super().str_schema(schema)

    def date_schema(self, schema: Any) -> Any:
        for name in ("gt", "ge", "lt", "le", "now_op"):
            if schema.get(name) is not None:
                raise _Inexact(f"no schema compares dates and times (`{name}`)")
        if schema.get("tz_constraint") == "naive":
            raise _Inexact("times in JSON have an offset")
        return getattr(super(), f"{schema['type']}_schema")(schema)

    datetime_schema = time_schema = date_schema

    def dict_schema(self, schema: Any) -> Any:
        keys = schema.get("keys_schema", {"type": "any"})
        names = self.generate_inner(keys) if keys["type"] != "any" else {"type": "string"}
        if names.get("type") != "string" and "$ref" not in names:
            raise _Inexact("the names of an object are strings")
        return super().dict_schema(schema)


def schema_of(kind: Any) -> tuple[dict[str, Any], Read]:
    """The JSON Schema of a type, and its validator."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema(mode="validation", schema_generator=_Schemas)
    except _Inexact as error:
        raise refused(kind, str(error), _WAY_OUT) from error
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        # What a pattern is refused for stands in the second line.
        why = ": ".join(line.strip().rstrip(".:") for line in str(error).splitlines()[:2])
        raise refused(kind, f"pydantic says: {why}", _WAY_OUT) from error

    def read(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise _invalid(kind, error) from error

    return exact(schema, kind), read


def _invalid(kind: Any, error: ValidationError) -> ConstraintError:
    """Names the rule that a text breaks which satisfies the schema, as far as pydantic tells it: the function of a validator."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"/{part}" for part in first["loc"])
    rule = str(first["type"])
    raised = first.get("ctx", {}).get("error")
    trace = getattr(raised, "__traceback__", None)
    while trace is not None:
        rule, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    at = f" at {place}" if place else ""
    return ConstraintError(
        f"the text is no {name_of(kind)}{at}: {first['msg']} (rule `{rule}`); what the schema does not say, no constraint keeps: say it in the "
        "schema, or draw again",
        place or None,
    )
