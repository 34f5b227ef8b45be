"""Constraints of requests, for the plug-ins of servers: a client must not be trusted with files, time and memory."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from . import _unskew
from ._errors import OptionError
from ._unskew import Constraint

#: Seconds that one constraint may take to compile.
COMPILE_SECONDS = "UNSKEW_COMPILE_SECONDS"

#: Work that compiling one constraint may take, in units that are equal on each machine.
COMPILE_FUEL = "UNSKEW_COMPILE_FUEL"

#: Bytes that compiled constraints may take in one process.
CACHE_BYTES = "UNSKEW_CACHE_BYTES"

#: The folder that constraints of requests may name files in; none where it is not set.
FILES = "UNSKEW_FILES"

#: The limits of requests as a JSON object of names and numbers; those that it leaves out have their defaults.
LIMITS = "UNSKEW_LIMITS"


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


def compile_fuel() -> int:
    """The most work of a compilation: all processes of a server decide alike by it."""
    return int(_number(COMPILE_FUEL, _unskew.COMPILE_FUEL))


def cache_bytes() -> int:
    """The limit of a compiler's cache."""
    return int(_number(CACHE_BYTES, 1 << 30))


def limits() -> dict[str, int]:
    """The limits of every request, which it may lower and not raise."""
    return _limits(os.environ.get(LIMITS) or "{}")


@functools.cache
def _limits(text: str) -> dict[str, int]:
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or not all(type(value) is int and 0 < value < 1 << 60 for value in table.values()):
        raise OptionError(f'{LIMITS} is {text!r}: give names and whole numbers as JSON, such as {{"grammar.nodes": 100000}}')
    try:
        Constraint.of_request({}, limits=table)
    except OptionError as error:
        raise OptionError(f"{LIMITS}: {error}") from error
    return table


def grammar_of(text: str) -> Constraint:
    """A grammar: Lark; GBNF where there is a `::=`, as servers tell them apart; or a constraint of unskew as JSON, with all of its
    options (`Constraint.to_json`)."""
    if text.lstrip().startswith("{"):
        return spec_of(text)
    return spec_of(Constraint.gbnf(text) if "::=" in text else Constraint.lark(text))


def spec_of(spec: Any) -> Constraint:
    """A constraint of a request, as JSON or made of it, under the rules of this server: every way in ends here. The files that it names
    lie in the folder UNSKEW_FILES, and it raises no limit above UNSKEW_LIMITS."""
    return Constraint.of_request(spec, files=os.environ.get(FILES) or None, limits=limits())
