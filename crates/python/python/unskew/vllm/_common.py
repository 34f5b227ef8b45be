"""What backend and processor share: the tokenizer of a model as unskew reads it, and constraints of requests."""

from __future__ import annotations

import json
import threading
from typing import Any
from weakref import WeakKeyDictionary

import unskew

from .._requests import cache_bytes, compile_seconds, grammar_of, spec_of

__all__ = ["compile_seconds", "compiler_of", "constraint_of", "spec_of"]

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
            tokens = unskew.Tokenizer.from_hf(tokenizer, vocab_size=vocab_size, eos=ends)
            kept[key] = unskew.Compiler(tokens, cache_bytes=cache_bytes())
        return kept[key]


def constraint_of(kind: str, spec: str) -> unskew.Constraint:
    """The constraint of a request of vLLM: `kind` is the name of a `StructuredOutputOptions`."""
    return spec_of(_constraint(kind, spec))


def _constraint(kind: str, spec: str) -> unskew.Constraint:
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
