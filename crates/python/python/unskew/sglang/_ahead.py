"""Walks wait for their constraints in SGLang's queue of grammars, whose ranks tell each other who is ready, and not in its step."""

from __future__ import annotations

import functools
from typing import Any

from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject

from ..serving.compiling import compile
from ..serving.wish import KEY, Wish
from ._backend import Backend


class Passed(BaseGrammarObject):
    """What a request without a mask has in the queue. It takes itself away when SGLang keeps a copy, which is when it is ready."""

    def __init__(self, req: Any) -> None:
        super().__init__()
        self.req = req

    def copy(self) -> Passed:
        self.req.grammar = None
        return self


def process(before: Any, manager: Any, req: Any) -> bool:
    """`GrammarManager.process_req_with_grammar`: whether a request waits in the queue."""
    params = req.sampling_params.custom_params
    if before(manager, req):
        return True
    backend = manager.grammar_backend
    # Theirs may wrap ours, and without ours there is no queue to wait in.
    own = getattr(backend, "grammar_backend", backend)
    if not isinstance(own, Backend) or not isinstance(params, dict) or KEY not in params or req.grammar is not None or req.finished():
        return False
    # All of them, on all ranks alike, kept or not.
    req.grammar = backend.executor.submit(functools.partial(_compile, own, req, params[KEY]))
    req.grammar_key = (KEY, "")
    manager.grammar_queue.append(req)
    return True


def _compile(backend: Backend, req: Any, value: Any) -> Passed:
    wish = Wish.of(value)
    if wish is not None:
        compile(backend.compiler, wish.constraint, backend.deadline)
    return Passed(req)
