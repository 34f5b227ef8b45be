"""A request for a faithful output: what it asks for, and what it must leave alone. One table for all engines.

Temperature, top-k, top-p and min-p define the model whose distribution is kept: the model after them, before the constraint. Whatever else
changes the distribution, or cuts outputs off, is refused by name, before a walk begins.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import unskew

from .._requests import spec_of

__all__ = ["KEY", "MODES", "Warp", "Wish", "check", "seed_of"]

#: The key of a request's extra arguments, in every engine.
KEY = "unskew"

Mode = Literal["cars", "rejection", "weights", "twist"]
MODES: tuple[Mode, ...] = get_args(Mode)

_FIELDS = {"constraint", "mode", "reject_id", "reply", "log_masks", "seed"}

#: What must be as it is by default: names in vLLM and SGLang, values that change nothing, and the reason.
_REFUSED: tuple[tuple[tuple[str, ...], tuple[Any, ...], str], ...] = (
    (("presence_penalty",), (0.0,), "it changes the model's distribution; set it to 0"),
    (("frequency_penalty",), (0.0,), "it changes the model's distribution; set it to 0"),
    (("repetition_penalty",), (1.0,), "it changes the model's distribution; set it to 1"),
    (("logit_bias",), (None, {}), "it changes the model's distribution"),
    (("allowed_token_ids",), (None, []), "it changes the model's distribution"),
    (("bad_words",), (None, []), "they change the model's distribution; exclude them by the constraint"),
    (("min_tokens", "min_new_tokens"), (0, None), "it forbids the end; write the least length into the constraint"),
    (("stop", "stop_strs", "stop_regex_strs"), (None, [], ""), "they cut outputs off; write the end into the constraint"),
    (("ignore_eos",), (False,), "an output ends by the end of the sequence"),
    (("structured_outputs", "json_schema", "regex", "ebnf", "structural_tag"), (None,), "its mask hides the model's distribution; give the constraint here alone"),
    (("beam_width",), (None, 1), "beams are no draws"),
    (("thinking_token_budget",), (None,), "it forces tokens"),
    (("repetition_detection",), (None,), "it cuts outputs off"),
    (("trace_decode_token_ids",), (None,), "it forces tokens"),
    (("watermarking",), (None, False), "it draws tokens in its own way"),
)


@dataclass(frozen=True)
class Warp:
    """The part of a request that defines the model: its rows are divided by the temperature and then cut, by min-p, top-k and top-p, as
    vLLM does it."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    @staticmethod
    def of(params: Any) -> Warp:
        """That of an engine's parameters, where what cuts nothing is written in several ways."""
        top_k, top_p, min_p = params.top_k, params.top_p, params.min_p
        return Warp(
            float(params.temperature),
            top_k if top_k and 0 < top_k < 1 << 30 else None,
            top_p if top_p is not None and top_p < 1.0 else None,
            min_p or None,
        )

    def options(self) -> dict[str, Any]:
        """The options of `unskew.Faithful.begin`."""
        return vars(self).copy()


@dataclass(frozen=True)
class Wish:
    """What a request asks for."""

    constraint: unskew.Constraint
    mode: Mode = "cars"
    #: vLLM: the id that ends a rejected sequence.
    reject_id: int | None = None
    #: A name by which the results are asked for.
    reply: str | None = None
    #: Whether the result tells the mass of each mask.
    log_masks: bool = False
    seed: int | None = None

    @staticmethod
    def of(value: Any) -> Wish | None:
        """The wish under `KEY`, if there is one. Raises `ValueError` with what is wrong."""
        if value is None:
            return None
        if isinstance(value, str):
            # Each process asks several times for a request, and once for each of its sequences.
            return (_read if len(value) <= _MAX_KEPT else _read.__wrapped__)(value)
        return Wish._of(value)

    @staticmethod
    def _of(value: Any) -> Wish:
        if not isinstance(value, dict):
            raise ValueError(f'`{KEY}` is {type(value).__name__}, not an object such as {{"constraint": {{"regex": "[a-z]+"}}}}')
        unknown = {str(name) for name in value} - _FIELDS
        if unknown:
            raise ValueError(f"`{KEY}` has no field `{min(unknown)}`: give {', '.join(sorted(_FIELDS))}")
        if "constraint" not in value:
            raise ValueError(f"`{KEY}` has no `constraint`")
        mode = value.get("mode", "cars")
        if mode not in MODES:
            raise ValueError(f"`{KEY}` has the mode {mode!r}: take one of {', '.join(MODES)}")
        numbers = {name: value.get(name) for name in ("reject_id", "seed")}
        for name, number in numbers.items():
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 64):
                raise ValueError(f"`{KEY}`: `{name}` is {number!r}, and no number from 0 on")
        reply, log_masks = value.get("reply"), value.get("log_masks", False)
        if reply is not None and (not isinstance(reply, str) or len(reply) > 64) or not isinstance(log_masks, bool):
            raise ValueError(f"`{KEY}`: `reply` is a short text, and `log_masks` true or false")
        try:
            return Wish(spec_of(value["constraint"]), mode, reply=reply, log_masks=log_masks, **numbers)
        except (ValueError, RecursionError, TypeError) as error:
            raise ValueError(f"`{KEY}`: {error}") from error


#: The longest text whose wish is kept.
_MAX_KEPT = 1 << 16


@lru_cache(maxsize=64)
def _read(text: str) -> Wish:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{KEY}` is no JSON: {error}") from error
    return Wish._of(value)


def check(params: Any) -> None:
    """Refuses what would change the model's distribution, or an output. Raises `ValueError`. Names that an engine does not have are passed
    over."""
    for names, allowed, why in _REFUSED:
        for name in names:
            value = getattr(params, name, allowed[0])
            value = list(value) if isinstance(value, (tuple, set, frozenset)) else value
            if not any(value == other and type(value) in (type(other), int, float) for other in allowed):
                raise ValueError(f"`{KEY}`: `{name}` is {value!r}: {why}")
    if params.temperature < 1e-3 or params.top_k == 1:
        raise ValueError(
            f"`{KEY}`: the temperature is {params.temperature} and top-k {params.top_k}: outputs follow the model from the temperature "
            "0.001 on, and where top-k leaves two tokens"
        )


def seed_of(*parts: object) -> int:
    """A seed of 64 bits of what names a walk."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, parts)).encode()).digest()[:8], "little")
