"""The backend `unskew` of vLLM's structured outputs.

A mask holds exactly the tokens that `accept_tokens` takes, after any rollback, so that neither a draft nor a stop id can bring vLLM's
state and ours apart. A constraint is compiled twice, in the front end, where an error is an HTTP 400 with its place, and in the engine;
both end at a deadline. What a request asks for and is not enforced exactly is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.structured_output.request import get_structured_output_key

import unskew

from ._common import compile_seconds, compiler_of, constraint_of

__all__ = ["UnskewBackend", "UnskewGrammar", "validate"]

#: Fields of a request that change what the constraint means and do not reach the engine.
_NOT_PASSED_ON = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


def validate(params: Any, model_config: Any, tokenizer: Any) -> None:
    """Checks the structured outputs of a request in the front end. Raises `VLLMValidationError`: an HTTP 400."""
    if model_config.is_diffusion:
        raise VLLMValidationError("unskew: diffusion models do not write from left to right, which constraints need")
    if tokenizer is None:
        raise VLLMValidationError("unskew: structured outputs need the tokenizer: start without `skip_tokenizer_init`")
    if params._backend not in (None, "unskew"):
        raise VLLMValidationError(f"unskew: the request names the backend {params._backend!r}, and the server has `unskew`")
    params._backend = "unskew"
    for name in _NOT_PASSED_ON:
        if getattr(params, name, None):
            raise VLLMValidationError(
                f"unskew: `{name}` is not supported: write a constraint with options of its own into `grammar`, as in "
                '{"json_schema": {...}, "whitespace": "compact"}'
            )
    if params.json_object is False:
        raise VLLMValidationError("unskew: `json_object` is false: leave it out")
    try:
        kind, spec = get_structured_output_key(params)
        compiler = compiler_of(tokenizer, model_config.get_vocab_size())
        compiler.compile(constraint_of(kind.name, spec), timeout=compile_seconds())
    except unskew.DeadlineError as error:
        raise VLLMValidationError(f"unskew: {error} ({compile_seconds():g} seconds; UNSKEW_COMPILE_SECONDS)") from error
    except (unskew.Error, ValueError, TypeError, RecursionError, OverflowError) as error:
        place = getattr(error, "place", None)
        raise VLLMValidationError(f"unskew: {place + ': ' if place and place not in str(error) else ''}{error}") from error


class UnskewGrammar(StructuredOutputGrammar):
    """One request."""

    def __init__(self, matcher: unskew.Matcher, backend: UnskewBackend) -> None:
        self._matcher = matcher
        self._backend = backend
        #: Tokens after the end, which vLLM counts and a matcher does not take.
        self._ignored = 0

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        for at, token in enumerate(tokens):
            if self._matcher.is_terminated():
                self._ignored += len(tokens) - at
                return True
            if token < 0 or not self._accept(token):
                return False
        return True

    def _accept(self, token: int) -> bool:
        try:
            return self._matcher.accept(token)
        except unskew.MatcherError:
            # An id beyond the vocabulary, or a limit: the request ends, and no other one.
            return False

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        if self._matcher.is_terminated():
            return []
        end = next((at for at, token in enumerate(tokens) if token < 0), len(tokens))
        try:
            return tokens[: self._matcher.validate(tokens[:end])]
        except unskew.MatcherError:
            return []

    def rollback(self, num_tokens: int) -> None:
        ignored = min(num_tokens, self._ignored)
        self._ignored -= ignored
        self._matcher.rollback(num_tokens - ignored)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        self._matcher.fill(self._backend.rows_of(bitmask), batch_index)

    def is_terminated(self) -> bool:
        return self._matcher.is_terminated()

    def reset(self) -> None:
        self._matcher.reset()
        self._ignored = 0


@dataclass
class UnskewBackend(StructuredOutputBackend):
    """The backend of one engine."""

    def __post_init__(self) -> None:
        self._compiler = compiler_of(self.tokenizer, self.vocab_size)
        self._words = self._compiler.mask_words
        self._rows: tuple[torch.Tensor, unskew.Rows] | None = None

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> UnskewGrammar:
        constraint = constraint_of(request_type.name, grammar_spec)
        compiled = self._compiler.compile(constraint, timeout=compile_seconds())
        stop_ids = sorted(stop_token_ids) if stop_token_ids else None
        return UnskewGrammar(unskew.Matcher(compiled, stop_ids=stop_ids), self)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        words = max(self._words, (self.vocab_size + 31) // 32)
        pin = torch.cuda.is_available()
        mask = torch.full((max_num_seqs, words), -1, dtype=torch.int32, pin_memory=pin)
        self._rows = (mask, unskew.Rows(mask.numpy(), self._words))
        return mask

    def rows_of(self, bitmask: torch.Tensor) -> Any:
        """The rows of a bitmask, looked at once."""
        if self._rows is not None and self._rows[0] is bitmask:
            return self._rows[1]
        return bitmask

    def destroy(self) -> None:
        self._rows = None
