"""`Faithful`, a logits processor of vLLM: outputs from P(output | constraint), for the model as it is.

Each sequence gets a walk (`unskew.Walk`). The walk reads the row of the next token and chooses the token, and the row is
replaced by that one: so the law is the walk's, and vLLM's sampler, its random numbers and its precision have no say. The
log-probabilities that vLLM reports are those before its processors, hence the model's own. A walk that is rejected ends by a
reserved id, which the client names as a stop id and sees as `stop_reason`; it then asks for another sequence.

Settings that would make it another model's law are refused when the request comes in. Two more things would be silent errors:

- A prompt may be read in pieces, and vLLM samples after each piece and throws the token away. The row of such a piece must not be
  learned from. vLLM's first interface does not tell its processors; its model runner knows, and `install` hands it over.
- A sequence may be put aside and come back. Its walk waits here, found by the list of its tokens.

Both interfaces of vLLM are here in one class, since both load classes from the same place: V1 calls `update_state` and
`apply(logits)`, V2 `add_request` and `apply(logits, ctx)`. Neither needs the tokens that vLLM has sampled, because the walk has
chosen them; so asynchronous scheduling, where they are not known yet, changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.v1.sample.logits_processor.interface import LogitsProcessor as V1
from vllm.v1.sample.logits_processor.interface import MoveDirectionality
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as V2

import unskew

from ._common import compile_seconds, compiler_of, spec_of

__all__ = ["Faithful", "Wish", "faithful_params", "worker_stats"]

#: The key of `SamplingParams.extra_args`, and of `vllm_xargs` over HTTP.
KEY = "unskew"

MODES = ("cars", "rejection", "weights", "twist")

#: The most sequences that wait here to come back.
MAX_PARKED = 4096

#: What must be as it is by default: (name, allowed values, why).
_REFUSED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("top_p", (1.0,), "it cuts the model's distribution; set it to 1"),
    ("top_k", (0, -1), "it cuts the model's distribution; set it to 0"),
    ("min_p", (0.0,), "it cuts the model's distribution; set it to 0"),
    ("presence_penalty", (0.0,), "it changes the model's distribution; set it to 0"),
    ("frequency_penalty", (0.0,), "it changes the model's distribution; set it to 0"),
    ("repetition_penalty", (1.0,), "it changes the model's distribution; set it to 1"),
    ("logit_bias", (None, {}), "it changes the model's distribution"),
    ("allowed_token_ids", (None, []), "it changes the model's distribution"),
    ("bad_words", (None, []), "they change the model's distribution; exclude them by the constraint"),
    ("min_tokens", (0,), "it forbids the end; write the least length into the constraint"),
    ("stop", (None, [], ""), "they cut outputs off; write the end into the constraint"),
    ("ignore_eos", (False,), "an output ends by the end of the sequence"),
    ("structured_outputs", (None,), "their mask hides the model's distribution; give the constraint here alone"),
    ("thinking_token_budget", (None,), "it forces tokens"),
    ("repetition_detection", (None,), "it cuts outputs off"),
    ("trace_decode_token_ids", (None,), "it forces tokens"),
    ("watermarking", (None, False), "it draws tokens in its own way"),
)


@dataclass(frozen=True)
class Wish:
    """What a request asks for, from `extra_args["unskew"]`."""

    constraint: unskew.Constraint
    mode: str
    reject_id: int

    @staticmethod
    def of(params: SamplingParams) -> Wish | None:
        """The wish of a request, if it has one. Raises `ValueError` with what is wrong."""
        value = (params.extra_args or {}).get(KEY)
        if value is None:
            return None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"`{KEY}` is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f'`{KEY}` is {type(value).__name__}, not an object such as {{"constraint": {{"regex": "[a-z]+"}}}}')
        unknown = set(value) - {"constraint", "mode", "reject_id"}
        if unknown:
            raise ValueError(f"`{KEY}` has no field `{min(unknown)}`: give `constraint`, `mode` and `reject_id`")
        if "constraint" not in value:
            raise ValueError(f"`{KEY}` has no `constraint`")
        mode, reject_id = value.get("mode", "cars"), value.get("reject_id")
        if mode not in MODES:
            raise ValueError(f"`{KEY}` has the mode {mode!r}: take one of {', '.join(MODES)}")
        if isinstance(reject_id, bool) or not isinstance(reject_id, int) or reject_id < 0:
            raise ValueError(f"`{KEY}` needs a `reject_id`, the id that ends a rejected sequence, which is also its one stop id")
        constraint = value["constraint"]
        try:
            return Wish(spec_of(constraint), mode, reject_id)
        except (ValueError, RecursionError, TypeError) as error:
            raise ValueError(f"`{KEY}`: {error}") from error


def _check(params: SamplingParams, wish: Wish) -> None:
    for name, allowed, why in _REFUSED:
        value = getattr(params, name, None)
        if not any(value == other and type(value) in (type(other), int, float) for other in allowed):
            raise ValueError(f"`{KEY}`: `{name}` is {value!r}: {why}")
    if params.temperature < 1e-3:
        raise ValueError(f"`{KEY}`: the temperature is {params.temperature}: outputs follow the model from 0.001 on")
    if wish.reject_id not in (params.stop_token_ids or []):
        raise ValueError(f"`{KEY}`: the stop ids are {params.stop_token_ids}, and the `reject_id` {wish.reject_id} is none of them")


@dataclass
class _Entry:
    """A sequence with its walk."""

    walk: unskew.Walk | None
    reject_id: int
    #: The walk has answered so many times.
    told: int = 0
    over: bool = False
    output_ids: list[int] | None = None
    #: V2: the wish, until the prompt is known.
    params: SamplingParams | None = field(default=None, repr=False)


_processors: weakref.WeakSet[Faithful] = weakref.WeakSet()


class Faithful(V1, V2):
    """The processor of both interfaces. Name it when vLLM starts: `--logits-processors unskew.vllm:Faithful`."""

    def __init__(self, vllm_config: Any, device_or_state: Any = None, is_pin_memory: bool | None = None) -> None:
        if getattr(vllm_config, "speculative_config", None) is not None:
            raise ValueError("unskew.vllm.Faithful does not go together with speculative decoding: leave one of them out")
        model = vllm_config.model_config
        self._max_model_len = int(model.max_model_len)
        self._seed = int(model.seed or 0)
        self._model_config = model
        self._vllm_config = vllm_config
        self._engine: unskew.Faithful | None = None
        self._ends: set[int] = set()
        self._begun = 0
        self._entries: dict[int, _Entry] = {}
        self._parked: OrderedDict[int, _Entry] = OrderedDict()
        self._runner: Any = None
        #: V2: the buffers of the slots.
        self._state = None if is_pin_memory is not None else device_or_state
        self._log = logging.getLogger("vllm.unskew")
        _processors.add(self)

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        wish = Wish.of(sampling_params)
        if wish is not None:
            _check(sampling_params, wish)

    def is_argmax_invariant(self) -> bool:
        return False

    def attach_runner(self, runner: Any) -> None:
        """Gives the processor the model runner, which knows the rows of prompts that are read in pieces."""
        self._runner = weakref.ref(runner)

    # V1

    def update_state(self, batch_update: Any) -> None:
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._park(self._entries.pop(index, None))
        for index, params, prompt_ids, output_ids in batch_update.added:
            self._park(self._entries.pop(index, None))
            entry = self._find(output_ids) or self._new(params, prompt_ids, output_ids)
            if entry is not None:
                self._entries[index] = entry
        for left, right, direction in batch_update.moved:
            entry, other = self._entries.pop(left, None), self._entries.pop(right, None)
            if entry is not None:
                self._entries[right] = entry
            if direction == MoveDirectionality.SWAP:
                if other is not None:
                    self._entries[left] = other
            else:
                self._park(other)

    def _park(self, entry: _Entry | None) -> None:
        if entry is None or entry.over:
            return
        self._parked[id(entry.output_ids)] = entry
        if len(self._parked) > MAX_PARKED:
            self._parked.popitem(last=False)

    def _find(self, output_ids: list[int]) -> _Entry | None:
        """The walk of a sequence that was put aside."""
        entry = self._parked.pop(id(output_ids), None)
        if entry is not None and entry.output_ids is output_ids:
            return entry
        return None

    def _new(self, params: SamplingParams, prompt_ids: list[int] | None, output_ids: list[int]) -> _Entry | None:
        wish = Wish.of(params)
        if wish is None:
            return None
        if output_ids:
            # vLLM has copied the list of a sequence that it put aside.
            for key, entry in reversed(self._parked.items()):
                if entry.params is params and entry.told == len(output_ids):
                    del self._parked[key]
                    entry.output_ids = output_ids
                    return entry
        walk = None
        if output_ids or prompt_ids is None:
            self._log.error("unskew: a sequence came back without its walk, and is rejected")
        else:
            walk = self._begin(wish, params, prompt_ids)
        return _Entry(walk, wish.reject_id, told=len(output_ids), output_ids=output_ids, params=params)

    # V2

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        self._entries.pop(req_idx, None)
        wish = Wish.of(sampling_params)
        if wish is None:
            return False
        self._entries[req_idx] = _Entry(None, wish.reject_id, params=sampling_params)
        return True

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        if not self._entries:
            return logits
        rows = self._rows_v1() if ctx is None else self._rows_v2(ctx)
        if not rows:
            return logits
        at = torch.tensor([row for row, _ in rows], device=logits.device)
        ids = self._step([entry for _, entry in rows], logits, at)
        logits[at] = float("-inf")
        logits[at, torch.tensor(ids, device=logits.device)] = 0.0
        return logits

    def _rows_v1(self) -> list[tuple[int, _Entry]]:
        runner = self._runner() if self._runner is not None else None
        if runner is None:
            self._fail("`unskew.vllm.install` was not called in this process, so that rows of prompts cannot be told apart")
            discarded = None
        else:
            discarded = runner.discard_request_mask.np
        rows = []
        for index, entry in self._entries.items():
            if discarded is not None and discarded[index]:
                continue
            if entry.output_ids is not None and len(entry.output_ids) != entry.told:
                self._fail(f"a sequence has {len(entry.output_ids)} tokens, and its walk has told {entry.told}", entry)
            rows.append((index, entry))
        return rows

    def _rows_v2(self, ctx: Any) -> list[tuple[int, _Entry]]:
        slots, positions = [int(slot) for slot in ctx.idx_mapping_np], ctx.pos.tolist()
        if len(positions) != len(slots):
            self._fail("there are rows of drafts")
            return []
        rows = []
        for row, (slot, position) in enumerate(zip(slots, positions)):
            entry = self._entries.get(slot)
            if entry is None:
                continue
            prompt_len, prefill_len = int(self._state.prompt_len.np[slot]), int(self._state.prefill_len.np[slot])
            if position + 1 < prefill_len:
                continue
            told = position + 1 - prompt_len
            if entry.walk is None and not entry.over and told == 0:
                prompt = self._state.all_token_ids.gpu[slot, :prompt_len].tolist()
                entry.walk = self._begin(Wish.of(entry.params), entry.params, prompt)
            elif told != entry.told:
                self._fail(f"a sequence has {told} tokens, and its walk has told {entry.told}", entry)
            rows.append((row, entry))
        return rows

    # Both

    def _fail(self, why: str, entry: _Entry | None = None) -> None:
        self._log.error("unskew: %s; the walk is rejected", why)
        for each in self._entries.values() if entry is None else (entry,):
            each.walk = None

    def _begin(self, wish: Wish, params: SamplingParams, prompt_ids: list[int]) -> unskew.Walk | None:
        # All ranks of an engine see the same requests in the same order, and must choose the same tokens.
        self._begun += 1
        name = f"{self._seed} {self._begun}" if params.seed is None else f"{params.seed}"
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        try:
            engine = self.engine()
            # The server adds the ends of the model's folder to those of the request.
            others = set(params.stop_token_ids or []) - {wish.reject_id} - self._ends
            if others:
                raise unskew.OptionError(f"the stop ids {sorted(others)} cut outputs off: name the `reject_id` alone")
            return engine.begin(
                wish.constraint,
                list(prompt_ids),
                seed=seed,
                max_tokens=self._max_tokens(params, len(prompt_ids)),
                mode=wish.mode,
                temperature=params.temperature,
                reject_id=wish.reject_id,
                timeout=compile_seconds(),
            )
        except (unskew.Error, ValueError, OverflowError) as error:
            self._log.error("unskew: no walk: %s", error)
            return None

    def _max_tokens(self, params: SamplingParams, prompt_len: int) -> int:
        room = self._max_model_len - prompt_len
        most = room if params.max_tokens is None else min(params.max_tokens, room)
        # vLLM counts the end.
        return max(0, most - 1)

    def engine(self) -> unskew.Faithful:
        """The walks of this process, made when they are first needed."""
        if self._engine is None:
            from vllm.tokenizers import cached_tokenizer_from_config

            eos = _eos(self._model_config)
            tokenizer = cached_tokenizer_from_config(model_config=self._model_config)
            self._ends = {*eos, tokenizer.eos_token_id}
            self._engine = unskew.Faithful(compiler_of(tokenizer, self._model_config.get_vocab_size(), eos))
        return self._engine

    def _step(self, entries: list[_Entry], logits: torch.Tensor, at: torch.Tensor) -> list[int]:
        live = [place for place, entry in enumerate(entries) if entry.walk is not None]
        ids = [entry.reject_id for entry in entries]
        if live:
            row_len = self.engine().row_len
            rows = logits[at[torch.tensor(live, device=at.device)]][:, :row_len].float().cpu()
            # A tokenizer may have more ids than the model has rows for.
            rows = torch.nn.functional.pad(rows, (0, row_len - rows.shape[1]), value=float("-inf")).contiguous()
            chosen = unskew.step_walks([entries[place].walk for place in live], rows.numpy())
            for place, id in zip(live, chosen):
                ids[place] = id
        for entry in entries:
            entry.told += 1
            walk = entry.walk
            entry.over = walk is None or walk.accepted is not None
            if walk is not None and walk.error is not None and entry.over:
                self._log.warning("unskew: a walk was rejected: %s", walk.error)
        return ids

    def stats(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """What was learned about a prompt and a constraint."""
        prompt_ids = [int(id) for id in request["prompt_ids"]]
        room = self._max_model_len - len(prompt_ids)
        most = room if request.get("max_tokens") is None else min(int(request["max_tokens"]), room)
        return self.engine().stats(
            spec_of(request["constraint"]),
            prompt_ids,
            max_tokens=max(0, most - 1),
            mode=request.get("mode", "cars"),
            temperature=float(request.get("temperature", 1.0)),
        )


def check_request(params: SamplingParams, model_config: Any, tokenizer: Any) -> None:
    """Checks a wish in the front end, before `validate_params`, which has no tokenizer. Raises `VLLMValidationError`: an HTTP 400."""
    try:
        wish = Wish.of(params)
        if wish is None:
            return
        if not any(each is Faithful or str(each) == "unskew.vllm:Faithful" for each in model_config.logits_processors or []):
            raise ValueError("the server has no processor for faithful outputs: start it with `--logits-processors unskew.vllm:Faithful`")
        if tokenizer is None:
            raise ValueError("constraints need the tokenizer: start without `skip_tokenizer_init`")
        eos = _eos(model_config)
        others = set(params.stop_token_ids or []) - {wish.reject_id, tokenizer.eos_token_id, *eos}
        if others:
            raise ValueError(f"the stop ids {sorted(others)} cut outputs off: name the `reject_id` alone")
        compiler = compiler_of(tokenizer, model_config.get_vocab_size(), eos)
        compiler.compile(wish.constraint, timeout=compile_seconds())
        unskew.Faithful(compiler, reject_id=wish.reject_id)
    except (unskew.Error, ValueError) as error:
        text = str(error)
        raise VLLMValidationError(text if text.startswith("`unskew`") else f"`unskew`: {text}") from error


def _eos(model_config: Any) -> tuple[int, ...]:
    """The ids that end a sequence beside the tokenizer's own."""
    eos = (model_config.try_get_generation_config() or {}).get("eos_token_id")
    return tuple(eos) if isinstance(eos, (list, tuple)) else () if eos is None else (eos,)


def worker_stats(request: str) -> str:
    """The findings of this process about a prompt and a constraint, as JSON: `null` where there are none."""
    asked = json.loads(request)
    for processor in list(_processors):
        found = processor.stats(asked)
        if found is not None:
            return json.dumps(found)
    return "null"


def faithful_params(
    constraint: unskew.Constraint,
    tokenizer: Any,
    *,
    mode: str = "cars",
    reject_id: int | None = None,
    **options: Any,
) -> SamplingParams:
    """The parameters of requests for faithful outputs: `llm.generate(prompts, faithful_params(constraint, llm.get_tokenizer(), n=100))`.

    Outputs whose `stop_reason` is `params.stop_token_ids[0]` are rejected walks: drop them, keep the order, and ask for more.
    """
    if reject_id is None:
        compiler = compiler_of(tokenizer, len(tokenizer))
        reject_id = unskew.Faithful(compiler).reject_id
    wish = {"constraint": constraint.to_json(), "mode": mode, "reject_id": reject_id}
    options.setdefault("max_tokens", 256)
    params = SamplingParams(stop_token_ids=[reject_id], extra_args={KEY: wish}, **options)
    _check(params, Wish.of(params))
    return params
