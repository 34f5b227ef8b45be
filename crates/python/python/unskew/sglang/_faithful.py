"""Outputs from P(output | constraint) inside SGLang: a `CustomLogitProcessor` over `unskew.Faithful`.

A walk goes along each request: it is asked for the token of each position, by the model's own row there, and that token is then the only one
left. So SGLang's random numbers have no say; temperature, top-k, top-p and min-p define the model. A walk that is rejected ends its request
by a reserved id, and the client begins another one (`unskew.sglang.sample` does). What the walks of a prompt and a constraint learn, later
ones know.

The server needs `--enable-custom-logit-processor`. A request sends `Faithful.to_str()` and, in `custom_params`, the key `unskew`: JSON
with `constraint` (as `Constraint.to_json` writes it), and, if wanted, `mode` and `seed`. The last element of `meta_info["unskew"]` in
the answer has the result.

The position of a request is how much of its text has been read, and not how many tokens SGLang has taken from its results: by default they
are taken one step late, and a request that is retracted loses the token in flight. An exception in a processor ends SGLang's scheduler, so
none leaves this one: its request ends with the message and status 400.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

import unskew

from .._requests import compile_fuel
from ..serving.compiling import DECIDED_SECONDS, message_of
from ..serving.walks import Walks, force, result_of
from ..serving.wish import KEY, Warp, Wish, check, seed_of
from ._requests import tokens_of_model

#: The place of what belongs to a request in its dict.
_OWN = "__unskew_walk__"

_walks = Walks(logging.getLogger("sglang.unskew"))

#: The walks of this process, by the length of rows. A process of SGLang serves one model.
_faithful: dict[int, unskew.Faithful] = {}

#: How often the weights of this process were replaced.
_epoch = 0


class _Own:
    """A request with a walk: the walk goes when the request does, however that ends."""

    is_over = False

    def __del__(self) -> None:
        _walks.end(id(self))


class Faithful(CustomLogitProcessor):
    """Forces each request to the next token of its walk. Requests without the key `unskew` are left alone."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None) -> torch.Tensor:
        asked: list[tuple[int, int, int]] = []
        of: list[tuple[Any, dict[str, Any], _Own, int]] = []
        for row, params in enumerate(custom_param_list or []):
            if not isinstance(params, dict) or KEY not in params:
                continue
            req: Any = params.get("__req__")
            try:
                # Rows of one request come one after the other.
                if of and params is of[-1][1]:
                    asked.pop()
                    of.pop()
                    raise unskew.OptionError("drafts are verified by SGLang's own sampler: start the server without speculation")
                own = params.get(_OWN)
                if type(own) is not _Own:
                    own = params[_OWN] = _Own()
                if own.is_over or _is_piece(req):
                    continue
                if id(own) not in _walks:
                    _begin(own, req, params[KEY], logits.shape[1])
                position = _read(req) - len(req.origin_input_ids)
                asked.append((id(own), position, row))
                of.append((req, params, own, position))
            except BaseException as error:  # noqa: BLE001 - see above; a Rust panic is no Exception
                _abort(req, params, error)
        if not asked:
            return logits
        try:
            ids = _walks.step(asked, logits)
            force(logits, [row for _, _, row in asked], ids)
        except BaseException as error:  # noqa: BLE001 - see above
            for req, params, _, _ in of:
                _abort(req, params, error)
            return logits
        for req, params, own, position in of:
            try:
                _report(req, own, position)
            except BaseException as error:  # noqa: BLE001 - see above
                _abort(req, params, error)
        return logits


def _read(req: Any) -> int:
    """How many ids of the request the row has read."""
    return int(getattr(req, "kv", req).kv_committed_len)


def _is_piece(req: Any) -> bool:
    """Whether the row is that of a piece of a long prompt and not of its end; SGLang throws away what is sampled there."""
    end = getattr(req, "extend_end", None)
    return end is not None and end < len(req.full_untruncated_fill_ids)


def _abort(req: Any, params: dict[str, Any], error: BaseException) -> None:
    """Ends the request itself; the batch goes on."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        raise error
    from sglang.srt.managers.schedule_batch import FINISH_ABORT

    own = params.get(_OWN)
    if type(own) is _Own:
        # It is asked for once more before SGLang takes it out of the batch.
        own.is_over = True
    try:
        req.to_finish = FINISH_ABORT(f"unskew: {message_of(error)}", 400, "BadRequestError")
    except (ReferenceError, AttributeError):
        # The request is gone.
        pass


def _begin(own: _Own, req: Any, value: Any, row_len: int) -> None:
    wish, params = Wish.of(value), req.sampling_params
    if wish is None:
        raise unskew.OptionError(f"`custom_params.{KEY}` is null: give `constraint`")
    check(params)
    faithful = _of_process(req, row_len)
    if set(params.stop_token_ids or ()) - {faithful.reject_id}:
        raise unskew.OptionError(f"`stop_token_ids` is {params.stop_token_ids}: they cut outputs off; leave them out")
    if wish.seed is not None and params.n != 1:
        raise unskew.OptionError("a seed with n > 1 would repeat one output")
    if params.max_new_tokens is None or params.max_new_tokens < 1:
        raise unskew.OptionError("`max_new_tokens` is missing: outputs are those up to this length, the end included")
    walk = faithful.begin(
        wish.constraint,
        list(req.origin_input_ids),
        # The same on every rank that shares the batch, and another one for each request and each server.
        seed=seed_of(_server_seed(), req.rid) if wish.seed is None else seed_of("seed", wish.seed),
        alone=wish.seed is not None,
        # The end is one of the tokens that SGLang counts.
        max_tokens=params.max_new_tokens - 1,
        mode=wish.mode,
        context=_context(req),
        timeout=DECIDED_SECONDS,
        fuel=compile_fuel(),
        **Warp.of(params).options(),
    )
    _walks.begin(id(own), lambda: walk, faithful.reject_id, log_masks=wish.log_masks)
    params.stop_token_ids = {*(params.stop_token_ids or ()), faithful.reject_id}


def _server_seed() -> int:
    """A number that a server draws when it starts, and that its processes share."""
    try:
        from sglang.srt.runtime_context import get_server_args

        return int(get_server_args().random_seed)
    except (ImportError, AttributeError, ValueError):
        return 0


def _context(req: Any) -> str:
    """All that the model's rows depend on beside the ids of the prompt: weights, adapter, images."""
    if getattr(req, "input_embeds", None) is not None:
        raise unskew.OptionError("a prompt of embeddings has no name by which walks could tell it from others: give its ids")
    parts: list[Any] = [_epoch, getattr(req, "lora_id", None)]
    images = getattr(req, "multimodal_inputs", None)
    for item in getattr(images, "mm_items", None) or ():
        if item.hash is None:
            raise unskew.OptionError("an image of the prompt has no hash by which walks could tell it from others")
        parts.append([item.hash, [list(offset) for offset in item.offsets or ()]])
    return json.dumps(parts)


def forget() -> None:
    """The weights were replaced: what was learned about them is forgotten, and outputs under way are rejected."""
    global _epoch
    _epoch += 1
    for faithful in _faithful.values():
        faithful.forget()


def _of_process(req: Any, row_len: int) -> unskew.Faithful:
    made = _faithful.get(row_len)
    if made is None:
        compiler = tokens_of_model(req.tokenizer, row_len, req.eos_token_ids).compiler
        made = _faithful[row_len] = unskew.Faithful(compiler, row_len=row_len)
    return made


def _report(req: Any, own: _Own, position: int) -> None:
    """Puts the result of a walk into the answer of its request: one element for each token, the last one with the result."""
    walk, result = _walks.walk(id(own)), None
    if walk.accepted is not None:
        stats = walk.stats()
        result = {**result_of(walk), "log_estimate": stats["log_estimate"], "relative_error": stats["relative_error"]}
    if req.customized_info is None:
        req.customized_info = {}
    # A token that was in flight may have been lost, with its element.
    told = req.customized_info.setdefault(KEY, [])
    told[position:] = [result]
