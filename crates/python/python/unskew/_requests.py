"""Constraints of requests, for the plug-ins of servers: a client must not be trusted with files, time and memory."""

from __future__ import annotations

import json
import os
from typing import Any

from ._errors import ConstraintError, OptionError
from ._unskew import Constraint

#: Seconds that one constraint may take to compile.
COMPILE_SECONDS = "UNSKEW_COMPILE_SECONDS"

#: Bytes that compiled constraints may take in one process.
CACHE_BYTES = "UNSKEW_CACHE_BYTES"

#: The folder that constraints of requests may name files in; none where it is not set.
FILES = "UNSKEW_FILES"

#: The options of a constraint that name a file.
_FILES = ("regex_file", "grammar_file", "json_schema_file", "structural_tag_file", "set", "exclude_set")


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e15:
        raise OptionError(f"{name} is {text!r}: give a number above 0")
    return value


def compile_seconds() -> float:
    """The deadline of a compilation."""
    return _number(COMPILE_SECONDS, 5.0)


def cache_bytes() -> int:
    """The limit of a compiler's cache."""
    return int(_number(CACHE_BYTES, 1 << 30))


def grammar_of(text: str) -> Constraint:
    """A grammar: Lark; GBNF where there is a `::=`, as servers tell them apart; or a constraint of unskew as JSON, with all of its
    options (`Constraint.to_json`)."""
    if text.lstrip().startswith("{"):
        return spec_of(text)
    if "::=" in text:
        return Constraint.gbnf(text)
    return Constraint.lark(text)


def spec_of(spec: Any) -> Constraint:
    """A constraint as JSON, of a request: a text, or an object. The files that it names lie in the folder UNSKEW_FILES: a client must not
    learn what others hold."""
    try:
        value = json.loads(spec) if isinstance(spec, str) else spec
    except (ValueError, RecursionError) as error:
        raise ConstraintError(f"not a constraint in JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConstraintError('a constraint is an object, such as {"regex": "[a-z]+"}')
    value = dict(value)
    for name in _FILES:
        if value.get(name) is not None:
            value[name] = _inside(name, value[name])
    if isinstance(value.get("schema_registry"), str):
        value["schema_registry"] = _inside("schema_registry", value["schema_registry"])
    if value.get("gpu"):
        raise ConstraintError("`gpu` is for programs with a GPU of their own, and not for requests")
    return Constraint.from_json(json.dumps(value))


def _inside(name: str, path: Any) -> str:
    folder = os.environ.get(FILES)
    if not folder:
        raise ConstraintError(f"`{name}` names a file, and this server lends none: set {FILES} to a folder when it is started")
    if not isinstance(path, str) or "\0" in path:
        raise ConstraintError(f"`{name}` is no path")
    folder = os.path.realpath(folder)
    found = os.path.realpath(os.path.join(folder, path))
    if os.path.commonpath([folder, found]) != folder:
        raise ConstraintError(f"`{name}` is outside of the folder {FILES}")
    return found
