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
        return unskew.Constraint.from_json(text)
    if "::=" in text:
        return unskew.Constraint.gbnf(text)
    return unskew.Constraint.lark(text)
