"""The backend `unskew` of vLLM's structured outputs.

A mask holds exactly the tokens that `accept_tokens` takes, after any rollback, so that neither a draft nor a stop id can bring vLLM's
state and ours apart. A constraint is compiled in the front end, where an error is an HTTP 400 with its place, and in the engine; both end
at a deadline. What a request asks for and is not enforced exactly is an error. What fails in the middle of an output ends its request
with the finish reason `error`, and no other one.
"""

from __future__ import annotations

import logging
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

from ..serving.compiling import DECIDED_SECONDS, REFUSED, compile, message_of
from ..serving.masks import Guarded
from ._common import compiler_of, compiler_of_model, constraint_of

__all__ = ["UnskewBackend", "UnskewGrammar", "validate"]

logger = logging.getLogger("vllm.unskew")

#: Fields of a request and options of the server that change what the constraint means.
_NOT_SUPPORTED = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


def validate(sampling_params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Checks the structured outputs of a request in the front end. Raises `VLLMValidationError`: an HTTP 400."""
    params = sampling_params.structured_outputs
    if model_config.is_diffusion:
        raise VLLMValidationError("unskew: diffusion models do not write from left to right, which constraints need")
    if tokenizer is None:
        raise VLLMValidationError("unskew: structured outputs need the tokenizer: start without `skip_tokenizer_init`")
    if params._backend not in (None, "unskew"):
        raise VLLMValidationError(f"unskew: the request names the backend {params._backend!r}, and the server has `unskew`")
    params._backend = "unskew"
    for where, asked in (("", params), ("--structured-outputs-config.", config)):
        for name in _NOT_SUPPORTED:
            if getattr(asked, name, None):
                raise VLLMValidationError(
                    f"unskew: `{where}{name}` is not supported: write a constraint with options of its own into `grammar`, as in "
                    '{"json_schema": {...}, "whitespace": "compact"}'
                )
    if params.json_object is False:
        raise VLLMValidationError("unskew: `json_object` is false: leave it out")
    if sampling_params.ignore_eos:
        raise VLLMValidationError("unskew: `ignore_eos` goes on after the end of the output, where there is no constraint: leave it out")
    try:
        kind, spec = get_structured_output_key(params)
        compiled = compile(compiler_of_model(model_config, tokenizer), constraint_of(kind.name, spec))
        if sampling_params.stop_token_ids:
            # A stop id may be the only text that the output could begin with: told here, and not half-way.
            matcher = unskew.Matcher(compiled, stop_ids=sorted(set(sampling_params.stop_token_ids)))
            matcher.fill(bytearray(4 * compiled.mask_words))
    except REFUSED as error:
        raise VLLMValidationError(f"unskew: {message_of(error)}") from error


class UnskewGrammar(StructuredOutputGrammar):
    """One request."""

    def __init__(self, guarded: Guarded, backend: UnskewBackend) -> None:
        self._guarded = guarded
        self._backend = backend
        self._logged = False

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        for token in tokens:
            if not self._guarded.accept(token):
                if not self._logged:
                    logger.error("unskew: request %s ends: %s", request_id, self._guarded.error)
                self._logged = True
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return tokens[: self._guarded.validate(tokens)]

    def rollback(self, num_tokens: int) -> None:
        self._guarded.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        self._guarded.fill(bitmask, batch_index, self._backend.rows_of(bitmask))

    def is_terminated(self) -> bool:
        return self._guarded.is_terminated()

    def reset(self) -> None:
        self._guarded.reset()
        self._logged = False


@dataclass
class UnskewBackend(StructuredOutputBackend):
    """The backend of one engine."""

    def __post_init__(self) -> None:
        model_config = getattr(self.vllm_config, "model_config", None)
        if model_config is None:
            self._compiler = compiler_of(self.tokenizer, self.vocab_size)
        else:
            self._compiler = compiler_of_model(model_config, self.tokenizer)
        self._words = self._compiler.mask_words
        self._rows: tuple[torch.Tensor, unskew.Rows] | None = None

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> UnskewGrammar:
        compiled = compile(self._compiler, constraint_of(request_type.name, grammar_spec), DECIDED_SECONDS)
        matcher = unskew.Matcher(compiled, stop_ids=sorted(stop_token_ids) if stop_token_ids else None)
        last_id = next((id for id in matcher.stop_ids if id < self.vocab_size), 0)
        return UnskewGrammar(Guarded(matcher, last_id), self)

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
