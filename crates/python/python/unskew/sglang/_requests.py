"""From what a request of SGLang asks for to a constraint. Knows neither SGLang nor torch."""

from __future__ import annotations

import json
from typing import Any

from .. import Constraint, ConstraintError
from .._requests import grammar_of, spec_of
from ..serving.compiling import Tokens, tokens_of

#: SGLang's key for any JSON value.
ANY_JSON = "$$ANY$$"

#: `Faithful.to_str()`, for clients without SGLang: a pickle that names the class, as dill writes one of a module.
PROCESSOR = json.dumps({"callable": b"cunskew.sglang._faithful\nFaithful\n.".hex()})


def tokens_of_model(tokenizer: Any, rows: int, ends: Any) -> Tokens:
    """The tokens of a model of SGLang and the one compiler for them in this process. `ends` are the ids that end a sequence, as the
    model's configuration has them: one, several or none."""
    return tokens_of(tokenizer, rows, () if ends is None else (ends,) if isinstance(ends, int) else ends)


def constraint(kind: str, text: str, whitespace: str | None = None) -> Constraint:
    """The constraint of a key of SGLang, under the rules of the server. Raises `ConstraintError`."""
    return spec_of(_constraint(kind, text, whitespace))


def _constraint(kind: str, text: str, whitespace: str | None) -> Constraint:
    if kind == "json":
        return Constraint.json_schema("{}" if text == ANY_JSON else text, whitespace=whitespace)
    if kind == "regex":
        return Constraint.regex(text)
    if kind in ("ebnf", "full_assistant_ebnf"):
        return grammar_of(text)
    if kind == "structural_tag":
        return Constraint.structural_tag(_with_schemas(text), whitespace=whitespace)
    raise ConstraintError(f"there is no kind of constraint {kind!r}")


def content(kind: str, text: str) -> dict[str, Any] | None:
    """What a key stands for as a part of a structural tag, or None where it cannot be one."""
    if kind == "json":
        return {"type": "json_schema", "json_schema": {} if text == ANY_JSON else json.loads(text)}
    if kind == "regex":
        return {"type": "regex", "pattern": text}
    if kind in ("ebnf", "full_assistant_ebnf") and "::=" in text and not text.lstrip().startswith("{"):
        return {"type": "grammar", "grammar": text}
    if kind == "structural_tag":
        found: dict[str, Any] | None = json.loads(text).get("format")
        return found
    return None


def _with_schemas(text: str) -> str:
    """The structural tag with a schema for each tool without one: SGLang sends null, for any value."""
    try:
        tag = json.loads(text)
    except ValueError:
        # The library says where it is wrong.
        return text
    return json.dumps(tag) if _fill_in(tag) else text


def _fill_in(part: Any) -> bool:
    if isinstance(part, list):
        return any([_fill_in(inner) for inner in part])
    if not isinstance(part, dict):
        return False
    changed = False
    schema = "json_schema" if part.get("type") in ("json_schema", "qwen_xml_parameter") else "schema"
    if schema == "json_schema" or ("begin" in part and "end" in part and "content" not in part):
        if part.get(schema) is None:
            part[schema] = {}
            changed = True
    # A schema is not a part of a tag.
    inner = [value for name, value in part.items() if name not in ("json_schema", "schema")]
    return any([_fill_in(value) for value in inner]) or changed
