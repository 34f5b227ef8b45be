"""Compiling before it holds up anybody, in vLLM's three kinds of processes.

- The front end checks requests on its event loop: `checked` does it before, on a thread, and is what the check itself calls.
- The engine compiles masks on threads of its own, and lets their requests wait. Walks have no mask there: `wait` lets them wait alike.
- The workers run the walks, in the step: `in_worker` begins to compile when a request arrives, by a call of the engine that waits for no
  answer (`Workers`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import unskew

from ..serving.compiling import ahead
from ._common import compiler_of_model

__all__ = ["Waiting", "Workers", "checked", "in_worker", "is_walk", "wait"]

logger = logging.getLogger("vllm.unskew")


def is_walk(params: Any) -> bool:
    """Whether a request asks for a walk."""
    return bool(getattr(params, "extra_args", None)) and "unskew" in params.extra_args


def has_mask(params: Any, config: Any) -> bool:
    """Whether a request has a mask of ours."""
    return config is not None and getattr(params, "structured_outputs", None) is not None and config.backend == "unskew"


def checked(params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """The check of a request, which compiles its constraints. Raises `VLLMValidationError`."""
    if is_walk(params):
        from .faithful import check_request

        check_request(params, model_config, tokenizer)
    if has_mask(params, config):
        from .backend import validate

        validate(params, model_config, config, tokenizer)


class Waiting:
    """What a request without a mask has in place of its grammar until its constraint is compiled. Then it takes itself away."""

    def __init__(self, request: Any, future: Future[unskew.Compiled], spec: str) -> None:
        self._request, self._future = request, future
        #: The constraint, for the workers.
        self.spec = spec
        #: The workers, once they may be called.
        self.workers: Workers | None = None

    @property
    def grammar(self) -> Any:
        """As vLLM's scheduler asks: None for not yet, an exception for the end of the request."""
        if not self._future.done():
            if self.workers is not None:
                # On the thread of the steps, which alone may call them.
                self.workers.tell()
            return None
        self._request.structured_output_request = None
        return self._future.exception() or True


class Workers:
    """Tells the workers what to compile, without waiting for answers.

    Answers are read with those of the steps. vLLM's workers have room for ten that nobody has read, and wait then, as the engine does once
    they wait: a call for each of the 50 sequences of one request stopped a server for ever. So a few calls are under way at a time, and what
    comes meanwhile goes with the next one.
    """

    #: Steps have four at most.
    MOST = 3

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._specs: dict[str, None] = {}
        self._calls: list[Any] = []

    def tell(self, *specs: str) -> None:
        self._specs.update(dict.fromkeys(specs))
        self._calls = [call for call in self._calls if not call.done()]
        if self._specs and len(self._calls) < self.MOST:
            specs, self._specs = tuple(self._specs), {}
            self._calls.append(self._executor.collective_rpc("unskew_ahead", args=(specs,), non_block=True))


def wait(request: Any, model_config: Any, blocking: bool) -> None:
    """Lets a request that asks for a walk wait until its constraint is compiled. `blocking`: here and now, where each rank has a scheduler
    of its own, and all must schedule alike."""
    params = request.sampling_params
    if not is_walk(params) or request.structured_output_request is not None:
        return
    from vllm.v1.request import RequestStatus

    from .faithful import wish_of

    wish = wish_of(params)
    if wish is None:
        return
    future = ahead(compiler_of_model(model_config), wish.constraint)
    if blocking:
        future.exception()
    elif not future.done():
        request.structured_output_request = Waiting(request, future, wish.constraint.to_json())
        request.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR


def in_worker(model_config: Any, specs: Iterable[str]) -> None:
    """Begins to compile; the walks come when the engine has compiled the same."""
    for spec in specs:
        ahead(compiler_of_model(model_config), unskew.Constraint.from_json(spec))
