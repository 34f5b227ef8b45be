"""What backend and processor share: the tokenizer of a model as unskew reads it, and constraints of requests."""

from __future__ import annotations

import json
import os
import threading
from typing import Any
from weakref import WeakKeyDictionary

import unskew

#: Seconds that one constraint may take to compile.
COMPILE_SECONDS = "UNSKEW_COMPILE_SECONDS"

#: The folder that constraints of requests may name files in; none where it is not set.
FILES = "UNSKEW_FILES"

#: The options of a constraint that name a file.
_FILES = ("regex_file", "grammar_file", "json_schema_file", "structural_tag_file", "set", "exclude_set")

#: Bytes that compiled constraints may take in one process.
CACHE_BYTES = "UNSKEW_CACHE_BYTES"


def _number(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e15:
        raise ValueError(f"{name} is {text!r}: give a number above 0")
    return value


def compile_seconds() -> float:
    """The deadline of a compilation."""
    return _number(COMPILE_SECONDS, 5.0)


_lock = threading.Lock()
_compilers: WeakKeyDictionary[Any, dict[Any, unskew.Compiler]] = WeakKeyDictionary()


def compiler_of(tokenizer: Any, vocab_size: int, eos: tuple[int, ...] = ()) -> unskew.Compiler:
    """The compiler for the tokens of a model, one for each tokenizer of this process. `eos` are ids that end a sequence beside the
    tokenizer's own."""
    with _lock:
        kept = _compilers.setdefault(tokenizer, {})
        key = (vocab_size, eos)
        if key not in kept:
            own = getattr(tokenizer, "eos_token_id", None)
            ends = list(dict.fromkeys([*([] if own is None else [own]), *eos])) or None
            tokens = unskew.Tokenizer.from_hf(tokenizer, vocab_size=max(vocab_size, len(tokenizer)), eos=ends)
            kept[key] = unskew.Compiler(tokens, cache_bytes=int(_number(CACHE_BYTES, 1 << 30)))
        return kept[key]


def constraint_of(kind: str, spec: str) -> unskew.Constraint:
    """The constraint of a request of vLLM: `kind` is the name of a `StructuredOutputOptions`."""
    if kind == "JSON":
        return unskew.Constraint.json_schema(spec)
    if kind == "JSON_OBJECT":
        return unskew.Constraint.response_format({"type": "json_object"})
    if kind == "REGEX":
        return unskew.Constraint.regex(spec)
    if kind == "CHOICE":
        return unskew.Constraint.choice(json.loads(spec))
    if kind == "STRUCTURAL_TAG":
        return unskew.Constraint.structural_tag(spec)
    if kind == "GRAMMAR":
        return grammar_of(spec)
    raise unskew.ConstraintError(f"unskew has no structured outputs of the kind {kind}")


def grammar_of(text: str) -> unskew.Constraint:
    """A grammar: Lark; GBNF where there is a `::=`, as vLLM tells them apart; or a constraint of unskew as JSON, with all of its
    options (`Constraint.to_json`)."""
    if text.lstrip().startswith("{"):
        return spec_of(text)
    if "::=" in text:
        return unskew.Constraint.gbnf(text)
    return unskew.Constraint.lark(text)


def spec_of(spec: Any) -> unskew.Constraint:
    """A constraint as JSON, of a request: a text, or an object. The files that it names lie in the folder UNSKEW_FILES: a client must not
    learn what others hold."""
    value = json.loads(spec) if isinstance(spec, str) else spec
    if not isinstance(value, dict):
        raise unskew.ConstraintError('a constraint is an object, such as {"regex": "[a-z]+"}')
    value = dict(value)
    for name in _FILES:
        if value.get(name) is not None:
            value[name] = _inside(name, value[name])
    if isinstance(value.get("schema_registry"), str):
        value["schema_registry"] = _inside("schema_registry", value["schema_registry"])
    if value.get("gpu"):
        raise unskew.ConstraintError("`gpu` is for programs with a GPU of their own, and not for requests")
    return unskew.Constraint.from_json(json.dumps(value))


def _inside(name: str, path: Any) -> str:
    folder = os.environ.get(FILES)
    if not folder:
        raise unskew.ConstraintError(f"`{name}` names a file, and this server lends none: set {FILES} to a folder when it is started")
    if not isinstance(path, str) or "\0" in path:
        raise unskew.ConstraintError(f"`{name}` is no path")
    folder = os.path.realpath(folder)
    found = os.path.realpath(os.path.join(folder, path))
    if os.path.commonpath([folder, found]) != folder:
        raise unskew.ConstraintError(f"`{name}` is outside of the folder {FILES}")
    return found
