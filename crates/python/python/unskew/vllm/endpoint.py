"""n faithful outputs of one request to `/v1/completions` or `/v1/chat/completions`: an endpoint plug-in of vLLM.

With `VLLM_PLUGINS=unskew` a request with `vllm_xargs: {"unskew": "{\\"constraint\\": ...}"}` and `n` gets n accepted outputs, each with
its log-probability and weight, and the estimate of P(constraint); without it, requests pass as they are. Rejected walks are begun again
here, so that clients neither see them nor need an id that marks them.

The routes call vLLM's own handlers for each round of walks. Tried instead: the engine's client. All that a handler does (prompts,
chat templates, limits, log-probabilities, aborts) would be here a second time. The results of walks are asked of the workers, by a name that the
requests carry: vLLM's log-probabilities are at temperature 1, or of rows with one token.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from vllm.entrypoints.openai.chat_completion.api_router import create_chat_completion as vllm_chat
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.api_router import create_completion as vllm_completion
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

import unskew

from ..serving.compiling import REFUSED, message_of, off_the_loop
from ..serving.outputs import Rounds
from ..serving.wish import KEY, Wish
from ._common import compiler_of_model

__all__ = ["EndpointPlugin", "plugin"]

logger = logging.getLogger("vllm.unskew")

#: One of vLLM's own.
Handler = Callable[[Any, Request], Awaitable[Any]]


class EndpointPlugin:
    """The plug-in, as vLLM calls it."""

    name = "unskew"
    required_tasks = ("generate",)

    def attach_router(self, app: Any) -> None:
        app.post("/v1/completions", response_model=None)(completions)
        app.post("/v1/chat/completions", response_model=None)(chat_completions)

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
    return await _answer(request, raw_request, vllm_completion)


async def chat_completions(request: ChatCompletionRequest, raw_request: Request) -> Response:
    """`/v1/chat/completions`."""
    return await _answer(request, raw_request, vllm_chat)


async def _answer(request: Any, raw_request: Request, handler: Handler) -> Response:
    if not request.vllm_xargs or KEY not in request.vllm_xargs:
        return await handler(request, raw_request)
    engine = raw_request.app.state.unskew_engine
    try:
        wish = json.loads(request.vllm_xargs[KEY])
        if not isinstance(wish, dict):
            raise ValueError("it is no object")
        if "reject_id" in wish:
            # The client begins rejected walks again by itself.
            return await handler(request, raw_request)
        rounds = Rounds.of(1 if request.n is None else request.n, wish.pop("walks", None), wish.get("mode", "cars"))
        if request.stream or request.echo or request.use_beam_search:
            raise ValueError("faithful outputs come all at once: leave out `stream`, `echo` and `use_beam_search`")
        prompt = getattr(request, "prompt", None)
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            raise ValueError("one prompt a request")
        Wish.of(wish)
        wish["reject_id"] = await off_the_loop(_reject_id, engine.model_config)
    except REFUSED as error:
        return refused(message_of(error))
    return await _rounds(request, raw_request, handler, engine, wish, rounds)


def _reject_id(model_config: Any) -> int:
    return unskew.Faithful(compiler_of_model(model_config), row_len=model_config.get_vocab_size()).reject_id


async def _rounds(
    request: Any, raw_request: Request, handler: Handler, engine: Any, wish: dict[str, Any], rounds: Rounds
) -> Response:
    reject_id, wants_ids, wants_logprobs = wish["reject_id"], request.return_token_ids, request.logprobs
    # A model's folder may name a penalty, which no model has.
    neutral = {} if request.repetition_penalty is not None else {"repetition_penalty": 1.0}
    answer: dict[str, Any] = {}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    stats: dict[str, Any] = {}
    errors: list[str] = []
    while ask := rounds.next():
        reply = secrets.token_hex(16)
        # It is told by the wish, and not by vLLM's own generator.
        seed = None if request.seed is None else (request.seed + rounds.walks) % (1 << 64)
        change = {
            "n": ask,
            "seed": None,
            "return_token_ids": True,
            "stop_token_ids": [*(request.stop_token_ids or []), reject_id],
            "vllm_xargs": {**request.vllm_xargs, KEY: json.dumps({**wish, "reply": reply, "seed": seed})},
            **neutral,
        }
        response = await handler(request.model_copy(update=change), raw_request)
        if response is None or response.status_code != 200:
            return response
        part = json.loads(response.body)
        answer = answer or part
        for name in usage:
            usage[name] += (part.get("usage") or {}).get(name) or 0
        results = await _results(engine, reply, stats, request.seed is not None)
        walks: list[dict[str, Any] | None] = []
        for choice in sorted(part["choices"], key=lambda choice: choice["index"]):
            result = results.get(str(choice["index"]), {})
            errors += [result["error"]] if result.get("error") else []
            # A chat may call tools, as vLLM's parser reads the text.
            is_over = choice["finish_reason"] in ("stop", "tool_calls") and choice.get("stop_reason") != reject_id
            if is_over and result.get("accepted"):
                walks.append({**choice, KEY: {name: result[name] for name in ("log_prob", "log_weight", "log_masks") if name in result}})
            else:
                walks.append(None)
        rounds.add(walks)
    if rounds.is_short():
        why = errors[-1] if errors else "the model rarely satisfies the constraint within the limit on tokens: allow more, or more `walks`"
        return refused(f"{len(rounds.accepted)} of {rounds.n} outputs in {rounds.walks} walks: {why}", 422)
    choices = []
    for index, choice in enumerate(rounds.outputs()):
        choice["index"] = index
        if not wants_ids:
            choice.pop("token_ids", None)
            choice.pop("prompt_token_ids", None)
            # Of a chat.
            answer.pop("prompt_token_ids", None)
        if wants_logprobs is None:
            choice["logprobs"] = None
        choices.append(choice)
    found: Mapping[str, Any] = unskew.merge_stats(list(stats.values())) or {}
    answer["choices"], answer["usage"] = choices, usage
    answer[KEY] = {
        "walks": rounds.walks,
        "accepted": len(rounds.accepted),
        "log_estimate": _finite(found.get("log_estimate")),
        "relative_error": _finite(found.get("relative_error")),
    }
    return JSONResponse(answer)


def _finite(number: float | None) -> float | None:
    # JSON has no infinity.
    return number if number is not None and abs(number) < 1e300 else None


async def _results(engine: Any, reply: str, stats: dict[str, Any], alone: bool) -> dict[str, Any]:
    """The results of the walks of a round, by their numbers; and in `stats` what each replica has learned. Ranks that share a batch have
    learned the same."""
    try:
        # Of all data-parallel replicas: a call of the engine itself answers with those of the first.
        everywhere = getattr(engine.engine_core, "call_utility_all_async", None)
        if everywhere is None:
            texts = await engine.collective_rpc("unskew_results", args=(reply,))
        else:
            texts = [text for part in await everywhere("collective_rpc", "unskew_results", None, (reply,), None) for text in part]
    except Exception as error:  # noqa: BLE001 - the server goes on
        logger.warning("unskew: the workers tell no results: %s", error)
        return {}
    results: dict[str, Any] = {}
    for found in (found for text in texts for found in json.loads(text)):
        results.update(found["outputs"])
        if found["stats"] is not None:
            # Walks with seeds of their own have learned from no other round.
            before = stats.get(found["replica"]) if alone else None
            stats[found["replica"]] = unskew.merge_stats([before, found["stats"]])
    return results
