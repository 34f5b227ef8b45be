"""n faithful outputs of one request to `/v1/completions`: an endpoint plug-in of vLLM.

With `VLLM_PLUGINS=unskew` a request with `vllm_xargs: {"unskew": "{\\"constraint\\": ...}"}` and `n` gets n accepted outputs, each with
its log-probability, and the estimate of P(constraint); without it, requests pass as they are. Rejected walks are begun again here,
so that clients neither see them nor need an id that marks them.

The route calls vLLM's own handler for each round of walks. Tried instead: the engine's client. All that the handler does (prompts,
limits, log-probabilities, aborts) would be here a second time.
"""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from vllm.entrypoints.openai.completion.api_router import create_completion as vllm_completion
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.tokenizers import cached_tokenizer_from_config

import unskew

from ._common import compiler_of
from ._rounds import Rounds, estimate, max_walks

__all__ = ["EndpointPlugin", "plugin"]

logger = logging.getLogger("vllm.unskew")

#: The most outputs of one request.
MAX_OUTPUTS = 16_384


class EndpointPlugin:
    """The plug-in, as vLLM calls it."""

    name = "unskew"
    required_tasks = ("generate",)

    def attach_router(self, app: Any) -> None:
        app.post("/v1/completions", response_model=None)(completions)

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        state.unskew_engine = engine_client


def plugin() -> EndpointPlugin:
    """The factory that vLLM's entry point names."""
    return EndpointPlugin()


def refused(message: str, status: int = 400) -> JSONResponse:
    """An error as vLLM writes them."""
    error = {"message": f"unskew: {message}", "type": "BadRequestError", "param": None, "code": status}
    return JSONResponse({"error": error}, status_code=status)


async def completions(request: CompletionRequest, raw_request: Request) -> Response:
    """`/v1/completions`."""
    if not request.vllm_xargs or "unskew" not in request.vllm_xargs:
        return await vllm_completion(request, raw_request)
    try:
        wish = json.loads(request.vllm_xargs["unskew"])
        assert isinstance(wish, dict)
    except (ValueError, TypeError, AssertionError, RecursionError):
        return refused('`vllm_xargs.unskew` is a text of JSON, such as "{\\"constraint\\": {\\"regex\\": \\"[a-z]+\\"}}"')
    if "reject_id" in wish:
        # The client begins rejected walks again by itself.
        return await vllm_completion(request, raw_request)
    n = request.n or 1
    limit = wish.pop("walks", max_walks(n))
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1 or not 1 <= n <= MAX_OUTPUTS:
        return refused(f"`walks` is a number of sequences, and `n` one from 1 to {MAX_OUTPUTS}")
    if request.stream or request.echo or request.use_beam_search:
        return refused("faithful outputs come all at once: leave out `stream`, `echo` and `use_beam_search`")
    if isinstance(request.prompt, list) and request.prompt and not isinstance(request.prompt[0], int):
        return refused("one prompt a request")
    mode = wish.get("mode", "cars")
    if mode not in ("cars", "rejection"):
        return refused(f"the mode is {mode!r}: `cars` and `rejection` give outputs that need no weights")
    engine = raw_request.app.state.unskew_engine
    model = engine.model_config
    compiler = compiler_of(cached_tokenizer_from_config(model_config=model), model.get_vocab_size())
    reject_id = unskew.Faithful(compiler).reject_id
    return await _rounds(request, raw_request, engine, {**wish, "reject_id": reject_id}, Rounds(n, limit))


async def _rounds(request: CompletionRequest, raw_request: Request, engine: Any, wish: dict[str, Any], rounds: Rounds) -> Response:
    reject_id, wants_ids, wants_logprobs = wish["reject_id"], request.return_token_ids, request.logprobs
    neutral = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    defaults = {name: value for name, value in neutral.items() if getattr(request, name, None) is None}
    answer: dict[str, Any] = {}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    while ask := rounds.next():
        seed = None if request.seed is None else request.seed + rounds.walks
        change = {
            "n": ask,
            "seed": seed,
            "logprobs": wants_logprobs or 0,
            "return_token_ids": True,
            "stop_token_ids": [*(request.stop_token_ids or []), reject_id],
            "vllm_xargs": {**request.vllm_xargs, "unskew": json.dumps(wish)},
            **defaults,
        }
        response = await vllm_completion(request.model_copy(update=change), raw_request)
        if response is None or response.status_code != 200:
            return response
        part = json.loads(response.body)
        answer = answer or part
        for name in usage:
            usage[name] += (part.get("usage") or {}).get(name) or 0
        for choice in sorted(part["choices"], key=lambda choice: choice["index"]):
            rejected = choice["finish_reason"] != "stop" or choice.get("stop_reason") == reject_id
            rounds.add(None if rejected else choice)
    if len(rounds.accepted) < rounds.n:
        return refused(
            f"{len(rounds.accepted)} of {rounds.n} outputs in {rounds.walks} walks: the model rarely satisfies the constraint within "
            f"{request.max_tokens} tokens; allow more tokens, or more `walks`, or look into the server's log",
            422,
        )
    ids = [tuple(choice["token_ids"]) for choice in rounds.accepted]
    log_probs = [math.fsum(choice["logprobs"]["token_logprobs"]) for choice in rounds.accepted]
    found = await _stats(engine, wish, rounds.accepted[0], request)
    if found is None:
        own = estimate(ids, log_probs)
        found = {} if own is None else {"log_estimate": own[0], "relative_error": own[1]}
    choices = []
    for index, (choice, log_prob) in enumerate(zip(rounds.outputs(), log_probs)):
        prompt_ids = choice.get("prompt_token_ids")
        choice = {**choice, "index": index, "unskew": {"log_prob": log_prob}}
        if not wants_ids:
            choice.pop("token_ids", None)
            if prompt_ids is not None:
                choice.pop("prompt_token_ids", None)
        if wants_logprobs is None:
            choice["logprobs"] = None
        choices.append(choice)
    answer["choices"], answer["usage"] = choices, usage
    answer["unskew"] = {
        "walks": rounds.walks,
        "accepted": len(rounds.accepted),
        "log_estimate": found.get("log_estimate"),
        "relative_error": found.get("relative_error"),
    }
    return JSONResponse(answer)


async def _stats(engine: Any, wish: dict[str, Any], choice: dict[str, Any], request: CompletionRequest) -> dict[str, Any] | None:
    """What the workers have learned about the request."""
    prompt_ids = choice.get("prompt_token_ids")
    if prompt_ids is None:
        return None
    constraint = wish["constraint"]
    asked = {
        "constraint": constraint if isinstance(constraint, str) else json.dumps(constraint),
        "prompt_ids": prompt_ids,
        "max_tokens": request.max_tokens,
        "mode": wish.get("mode", "cars"),
        "temperature": 1.0 if request.temperature is None else request.temperature,
    }
    try:
        texts = await engine.collective_rpc("unskew_stats", args=(json.dumps(asked),))
    except Exception as error:  # noqa: BLE001 - the outputs are there, and tell an estimate by themselves
        logger.warning("unskew: the workers tell no estimate: %s", error)
        return None
    for text in texts:
        found = json.loads(text)
        if found is not None and found["log_estimate"] not in (None, -math.inf):
            return found
    return None
