"""What backend and processor share: the compiler for a model, and constraints of requests."""

from __future__ import annotations

import json
from typing import Any

import unskew

from .._requests import grammar_of, spec_of
from ..serving.compiling import compiler_of

__all__ = ["compiler_of", "compiler_of_model", "constraint_of", "ends_of"]


def ends_of(model_config: Any) -> tuple[int, ...]:
    """The ids that end a sequence beside the tokenizer's own, as the model's folder names them."""
    ends = (model_config.try_get_generation_config() or {}).get("eos_token_id")
    return tuple(ends) if isinstance(ends, (list, tuple)) else () if ends is None else (ends,)


def compiler_of_model(model_config: Any, tokenizer: Any = None) -> unskew.Compiler:
    """The one compiler of this process for a model of vLLM: the check of requests, the masks and the walks ask the same."""
    if tokenizer is None:
        from vllm.tokenizers import cached_tokenizer_from_config

        tokenizer = cached_tokenizer_from_config(model_config=model_config)
    return compiler_of(tokenizer, model_config.get_vocab_size(), ends_of(model_config))


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
