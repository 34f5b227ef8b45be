"""Outputs from P(output | constraint) inside SGLang: a `CustomLogitProcessor` over `unskew.Faithful`.

A walk goes along each request: it reads the model's own row after each token, and answers with the token that the request goes on with,
which is then the only one left. So temperature, truncation and random numbers of SGLang have no say. A walk that is rejected
ends its request by a reserved id, and the client begins another one (`unskew.sglang.sample` does). What the walks of a prompt and a
constraint learn, later ones know.

The server needs `--enable-custom-logit-processor`. A request sends `Faithful.to_str()` and, in `custom_params`, the key `unskew`: JSON
with `constraint` (as `Constraint.to_json` writes it), and, if wanted, `mode` and `seed`. The last element of `meta_info["unskew"]` in
the answer has the result.

An exception in a processor ends SGLang's scheduler, so none leaves this one: its request ends with the message and status 400.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

import unskew

from .._requests import cache_bytes, compile_seconds, spec_of

#: The key in `custom_params` and in the answer's `meta_info`.
KEY = "unskew"

#: The place of a walk in the dict of a request.
_WALK = "__unskew_walk__"

_FIELDS = {"constraint", "mode", "seed"}

#: The walks of this process, by the length of rows. A process of SGLang serves one model.
_faithful: dict[int, unskew.Faithful] = {}


class Faithful(CustomLogitProcessor):
    """Forces each request to the next token of its walk. Requests without the key `unskew` are left alone."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None) -> torch.Tensor:
        walking: list[tuple[int, dict[str, Any]]] = []
        last = None
        for row, params in enumerate(custom_param_list or []):
            if params is None or KEY not in params or _is_over(params) or _is_piece(params["__req__"]):
                continue
            try:
                # Rows of one request come one after the other.
                if params is last:
                    walking.pop()
                    raise unskew.OptionError("drafts are verified by SGLang's own sampler: start the server without speculation")
                last = params
                if _WALK not in params:
                    params[_WALK] = _begin(params["__req__"], params[KEY], logits.shape[1])
                walking.append((row, params))
            except Exception as error:  # noqa: BLE001 - see above
                _abort(params, error)
        if not walking:
            return logits
        try:
            at = torch.tensor([row for row, _ in walking], device=logits.device)
            rows = logits[at].to("cpu", torch.float32)
            ids = unskew.step_walks([params[_WALK] for _, params in walking], rows)
        except Exception as error:  # noqa: BLE001 - see above
            for _, params in walking:
                _abort(params, error)
            return logits
        logits[at] = float("-inf")
        logits[at, torch.tensor(ids, device=logits.device)] = 0.0
        for _, params in walking:
            try:
                _report(params)
            except Exception as error:  # noqa: BLE001 - see above
                _abort(params, error)
        return logits


def _is_over(params: dict[str, Any]) -> bool:
    """Whether a request was aborted here, and is asked for once more before SGLang takes it out of the batch."""
    return params.get(_WALK, False) is None


def _is_piece(req: Any) -> bool:
    """Whether the row is that of a piece of a long prompt and not of its end; SGLang throws away what is sampled there."""
    return req.extend_end < len(req.full_untruncated_fill_ids)


def _abort(params: dict[str, Any], error: Exception) -> None:
    from sglang.srt.managers.schedule_batch import FINISH_ABORT

    params[_WALK] = None
    # For the request itself; the batch goes on.
    params["__req__"].to_finish = FINISH_ABORT(f"unskew: {error}", 400, "BadRequestError")


def _begin(req: Any, text: Any, row_len: int) -> unskew.Walk:
    options = json.loads(text) if isinstance(text, str) else text
    if not isinstance(options, dict) or not isinstance(options.get("constraint"), (str, dict)):
        raise unskew.OptionError(f"`custom_params.{KEY}` is JSON with `constraint`, such as {{\"regex\": \"[a-z]+\"}}")
    unknown = sorted(set(options) - _FIELDS)
    if unknown:
        raise unskew.OptionError(f"`custom_params.{KEY}` has no field `{unknown[0]}`, only {', '.join(sorted(_FIELDS))}")
    params = req.sampling_params
    _refuse(params, "seed" in options)
    faithful = _of_process(req, row_len)
    seed = options.get("seed")
    if seed is None:
        # The same on every machine that shares the batch, and another one for each request.
        seed = int.from_bytes(hashlib.blake2b(str(req.rid).encode(), digest_size=8).digest(), "little")
    walk = faithful.begin(
        spec_of(options["constraint"]),
        list(req.origin_input_ids),
        seed=seed,
        # The end is one of the tokens that SGLang counts.
        max_tokens=params.max_new_tokens - 1,
        mode=options.get("mode", "cars"),
        temperature=params.temperature,
        timeout=compile_seconds(),
    )
    params.stop_token_ids = {*(params.stop_token_ids or ()), faithful.reject_id}
    return walk


def _of_process(req: Any, row_len: int) -> unskew.Faithful:
    made = _faithful.get(row_len)
    if made is None:
        eos = req.eos_token_ids
        eos = None if not eos else sorted({eos} if isinstance(eos, int) else eos)
        tokenizer = unskew.Tokenizer.from_hf(req.tokenizer, vocab_size=row_len, eos=eos)
        made = _faithful[row_len] = unskew.Faithful(unskew.Compiler(tokenizer, cache_bytes=cache_bytes()))
    return made


def _refuse(params: Any, has_seed: bool) -> None:
    """Refuses what would change the model's distribution, or an output."""
    # SGLang takes temperature 0 for top-k 1.
    truncated = [
        ("top_k (or temperature 0)", params.top_k not in (-1, 1 << 30)),
        ("top_p", params.top_p != 1.0),
        ("min_p", params.min_p != 0.0),
        ("frequency_penalty", params.frequency_penalty != 0.0),
        ("presence_penalty", params.presence_penalty != 0.0),
        ("repetition_penalty", params.repetition_penalty != 1.0),
        ("min_new_tokens", params.min_new_tokens != 0),
        ("logit_bias", bool(params.logit_bias)),
        ("ignore_eos", params.ignore_eos),
        ("beam_width", (params.beam_width or 1) != 1),
        ("stop", bool(params.stop_strs)),
        ("stop_regex", bool(params.stop_regex_strs)),
        ("stop_token_ids", bool(params.stop_token_ids)),
        ("json_schema, regex, ebnf or structural_tag", any(
            value is not None for value in (params.json_schema, params.regex, params.ebnf, params.structural_tag)
        )),
        ("a seed with n > 1", has_seed and params.n != 1),
    ]
    for name, is_set in truncated:
        if is_set:
            raise unskew.OptionError(f"`{name}` would change the distribution of outputs, or cut them: leave it out")
    if params.max_new_tokens is None or params.max_new_tokens < 1:
        raise unskew.OptionError("`max_new_tokens` is missing: outputs are those up to this length, the end included")


def _report(params: dict[str, Any]) -> None:
    """Puts the result of a walk into the answer of its request: one element for each token, the last one with the result."""
    walk, req = params[_WALK], params["__req__"]
    if walk.error is not None:
        raise unskew.SampleError(walk.error)
    result = None
    if walk.accepted is not None:
        stats = walk.stats()
        result = {
            "accepted": walk.accepted,
            "log_prob": walk.log_prob,
            "log_weight": walk.log_weight,
            "log_estimate": stats["log_estimate"],
            "relative_error": stats["relative_error"],
        }
    if req.customized_info is None:
        req.customized_info = {}
    req.customized_info.setdefault(KEY, []).append(result)
