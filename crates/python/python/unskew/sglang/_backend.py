"""SGLang's interface for grammars, over `unskew.Compiler` and `unskew.Matcher`.

Constraints are compiled on SGLang's threads, until a deadline that ends the work itself, and `unskew.Compiler` keeps them within its limit
in bytes. SGLang's own dict decides whether a request waits, and must decide alike on all ranks of a model, which gather who is ready: it
holds what SGLang has put there after that, and forgets by the number of entries alone. Whether a rank has compiled a constraint, or still
has it, plays no part.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
)

import unskew

from .._requests import compile_seconds
from ..serving.compiling import DECIDED_SECONDS, REFUSED, compile, message_of
from ..serving.masks import Guarded, fill_batch
from ..serving.wish import KEY
from . import _requests


class Grammar(BaseGrammarObject):
    """One request under a constraint."""

    def __init__(self, key: tuple[str, str], guarded: Guarded, backend: Backend) -> None:
        super().__init__()
        self.key = key
        self.guarded = guarded
        self.backend = backend
        self.grammar_stats = GrammarStats(dispatch_type=key[0])

    def accept_token(self, token: int) -> None:
        if not self.guarded.accept(token):
            # For SGLang, which ends the request, with the message.
            raise ValueError(self.guarded.error)
        self.current_token = token

    def rollback(self, k: int) -> None:
        self.guarded.rollback(k)

    def is_terminated(self) -> bool:
        return self.guarded.is_terminated()

    def copy(self) -> Grammar:
        copy = Grammar(self.key, self.guarded.fork(), self.backend)
        copy.current_token = self.current_token
        copy.finished = self.finished
        copy.grammar_stats.is_cache_hit = True
        return copy

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        self.guarded.fill(vocab_mask, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[Any], vocab_mask: torch.Tensor) -> None:
        """All rows in one call, without the interpreter lock; rows that are not listed stay as they are."""
        # Some may be wrapped, and their request still be thinking.
        if all(type(entry.grammar) is Grammar for entry in entries):
            fill_batch([entry.grammar.guarded for entry in entries], vocab_mask, [entry.row for entry in entries])
        else:
            BaseGrammarObject.fill_vocab_mask_batched(entries, vocab_mask)

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return self.backend.allocate_vocab_mask(vocab_size, batch_size, device)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return Backend.move_vocab_mask(vocab_mask, device)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        Backend.apply_vocab_mask(logits, vocab_mask)

    def try_jump_forward(self, tokenizer: Any) -> None:
        # No part of SGLang 0.5.23 jumps. A text that is spelled by the tokenizer would give up other spellings of the model.
        return None

    def __repr__(self) -> str:
        return f"<unskew.sglang.Grammar {self.key[0]}: {self.guarded.matcher!r}>"


class Backend(BaseGrammarBackend):
    """Compiles the constraints of requests."""

    def __init__(
        self,
        tokenizer: unskew.Tokenizer,
        *,
        compiler: unskew.Compiler | None = None,
        whitespace: str | None = None,
        deadline: float = 5.0,
    ) -> None:
        super().__init__()
        self.cache = Kept()
        self.tokenizer = tokenizer
        self.compiler = compiler or unskew.Compiler(tokenizer)
        self.whitespace = whitespace
        self.deadline = deadline

    # Requests. Those of the base class look into the dict, and compile what is not there by the following ones.

    def reset(self) -> None:
        super().reset()
        self.compiler.clear()

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        return self._made(("json", key_string))

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        return self._made(("regex", key_string))

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        return self._made(("ebnf", key_string))

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        return self._made(("structural_tag", key_string))

    def _constraint(self, key: tuple[str, str]) -> unskew.Constraint:
        return _requests.constraint(*key, whitespace=self.whitespace)

    def _made(self, key: tuple[str, str]) -> BaseGrammarObject:
        try:
            compiled = compile(self.compiler, self._constraint(key), self.deadline)
        except REFUSED as error:
            return self._invalid(error)
        return self._grammar(key, compiled)

    def _grammar(self, key: tuple[str, str], compiled: unskew.Compiled) -> Grammar:
        matcher = unskew.Matcher(compiled)
        # SGLang looks at stop ids before it asks a grammar: one of them would end the request as if all were well.
        last_id = next(id for id in range(len(matcher.stop_ids) + 1) if id not in matcher.stop_ids)
        return Grammar(key, Guarded(matcher, last_id), self)

    @staticmethod
    def _invalid(error: Exception) -> InvalidGrammarObject:
        late = isinstance(error, unskew.DeadlineError) and not isinstance(error, unskew.FuelError)
        return (Late if late else InvalidGrammarObject)(message_of(error))

    # Frames of answers: what some models write around the text of a request.

    def reserve_framing_tokens(self, token_ids: Any) -> None:
        """Text never matches control tokens here, so that none has to be reserved, unless one is text itself."""
        for id in token_ids:
            if self.tokenizer.decode_bytes([id]):
                raise unskew.ConstraintError(
                    f"the token {id} ({self.tokenizer.decode([id])!r}) frames answers and is text in the tokenizer: "
                    "unskew cannot tell the two apart"
                )

    def compile_framed_grammar(self, grammar: BaseGrammarObject, frame: Any) -> BaseGrammarObject | None:
        if not isinstance(grammar, Grammar):
            return None
        content = _requests.content(*grammar.key)
        if content is None:
            return None
        made = self._made(("structural_tag", json.dumps(frame(content))))
        if isinstance(made, InvalidGrammarObject):
            # A request whose frame is not enforced would be a request without a constraint.
            raise unskew.ConstraintError(made.error_message)
        return made

    # Masks.

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        shape = (batch_size, self.tokenizer.mask_words)
        return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Sets logits of forbidden ids to minus infinity, in place."""
        unskew.apply(logits, vocab_mask)

    # Strict thinking: SGLang forbids and forces some tokens while a request thinks.

    @property
    def is_support_token_filter(self) -> bool:
        return True

    @staticmethod
    def set_token_filter(
        vocab_mask: torch.Tensor,
        token_ids: list[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch

        set_token_filter_torch(vocab_mask, token_ids, batch_idx, is_allowed=is_allowed, reset_vocab_mask=reset_vocab_mask)


class Kept(OrderedDict[Any, Any]):
    """SGLang's dict of grammars, with a bound that is the same on all ranks: the last entries that were used."""

    #: Entries hold compiled constraints that the compiler may have let go.
    MOST = 64

    #: Characters of a key.
    LONGEST = 1 << 20

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self.move_to_end(key)
        return super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        # What was too slow once may be tried again.
        if key[0] != KEY and len(key[1]) <= self.LONGEST and not isinstance(value, Late):
            super().__setitem__(key, value)
            self.move_to_end(key)
        while len(self) > self.MOST:
            self.popitem(last=False)


class Late(InvalidGrammarObject):
    """A constraint that was not compiled in time."""


def create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> BaseGrammarBackend:
    """The backend of a server, which SGLang asks for by its name."""
    tokens = _requests.tokens_of_model(tokenizer, vocab_size, eos_token_ids)
    # A clock decides for the one rank that reads it. Fuel and SGLang's own limit, of turns, decide for all, and come before this one.
    deadline = compile_seconds() if getattr(server_args, "tp_size", 1) == 1 else DECIDED_SECONDS
    backend = Backend(tokens.tokenizer, compiler=tokens.compiler, whitespace=_whitespace(server_args), deadline=deadline)
    if not getattr(server_args, "reasoning_parser", None):
        return backend

    # SGLang wraps its own backends alone.
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(model_type=server_args.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    strict = bool(getattr(server_args, "enable_strict_thinking", False))
    wrapped = ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=strict)
    wrapped.cache = Kept()
    return wrapped


def _whitespace(server_args: Any) -> str | None:
    """White space in JSON, as the options of the server say it."""
    if getattr(server_args, "constrained_json_whitespace_pattern", None):
        raise unskew.OptionError(
            "--constrained-json-whitespace-pattern is not supported: use --constrained-json-max-whitespace-cnt or "
            "--constrained-json-disable-any-whitespace"
        )
    most = getattr(server_args, "constrained_json_max_whitespace_cnt", None)
    if getattr(server_args, "constrained_json_disable_any_whitespace", False):
        return "spaced"
    return None if most is None else f"bounded:{most}"
