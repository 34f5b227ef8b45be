"""`Faithful`, a logits processor of vLLM: outputs from P(output | constraint), for the model as it is.

Each sequence gets a walk (`unskew.Walk`). The walk chooses the token of each position, by the row there, and the row is replaced by that
one: so the law is the walk's, and vLLM's sampler, its random numbers and its precision have no say. A walk that is rejected ends by a
reserved id, which the client names as a stop id and sees as `stop_reason`; it then asks for another sequence.

vLLM's two runners call their processors in different ways, and tell neither which request a row belongs to, nor whether it is of a prompt
that is read in pieces, whose token is thrown away. Their schedules tell: `observe` reads what begins and ends from the schedule of each
step, and `apply` asks the runner which request has which row, and how long its output is. A walk knows its place by that length, so a
sequence may be preempted, resumed, or lose the token in flight. Tried instead: the batches that V1 announces and the slots of V2, with
walks that were put aside and found again. Two interfaces had two ways to lose one.

Under V2's speculation a request has a row for each draft: a draft is followed as long as it is what the walk chooses, so that outputs keep
their law. V1 has no custom processors beside speculation, and vLLM says so when it starts.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import weakref
from typing import Any

import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.sample.logits_processor.interface import LogitsProcessor as V1
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as V2

import unskew

from .._requests import compile_fuel
from ..serving.compiling import DECIDED_SECONDS, REFUSED, compile, message_of
from ..serving.walks import Asked, Walks, force
from ..serving.wish import KEY, Warp, Wish, check, seed_of
from ._common import compiler_of, compiler_of_model, ends_of

__all__ = ["Faithful", "check_request", "faithful_params", "observe", "worker_forget", "worker_results"]

_processors: weakref.WeakSet[Faithful] = weakref.WeakSet()


def wish_of(params: SamplingParams) -> Wish | None:
    """The wish of a request, if it has one. Raises `ValueError`."""
    extra = params.extra_args or {}
    if (extra.get("kv_transfer_params") or {}).get("do_remote_decode"):
        # Another engine writes the output: this one reads the prompt, and its token is thrown away.
        return None
    wish = Wish.of(extra.get(KEY))
    if wish is None:
        return None
    if wish.reject_id is None:
        raise ValueError(
            f"`{KEY}` needs a `reject_id`, the id that ends a rejected sequence, which is also its one stop id; or ask a "
            f"server that was started with VLLM_PLUGINS=unskew, which needs none"
        )
    if wish.reject_id not in (params.stop_token_ids or []):
        raise ValueError(f"`{KEY}`: the stop ids are {params.stop_token_ids}, and the `reject_id` {wish.reject_id} is none of them")
    return wish


class Faithful(V1, V2):
    """The processor of both runners. Name it when vLLM starts: `--logits-processors unskew.vllm:Faithful`."""

    def __init__(self, vllm_config: Any, device_or_state: Any = None, is_pin_memory: bool | None = None) -> None:
        self.config = vllm_config
        model = vllm_config.model_config
        self._max_model_len = int(model.max_model_len)
        self._engine: unskew.Faithful | None = None
        self._ends: set[int] = set()
        self._walks = Walks(logging.getLogger("vllm.unskew"))
        self._prompts: dict[str, list[int]] = {}
        #: V2: the buffers of the slots.
        self._state: Any = None if is_pin_memory is not None else device_or_state
        self._runner: Any = None
        #: How often the weights were replaced.
        self._epoch = 0
        self._begun = 0
        # Ranks that share a batch must draw the same numbers, and nobody else: neither other replicas nor this one after a restart.
        parallel = vllm_config.parallel_config
        self._nonce = f"{_agreed(secrets.token_hex(16))} {getattr(parallel, 'data_parallel_rank', 0)}"
        # There each rank names requests by itself.
        self._ids_differ = getattr(parallel, "distributed_executor_backend", None) == "external_launcher"
        self._is_sharded = bool(getattr(parallel, "enable_batch_sharded_sampling", False))
        _processors.add(self)

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        if wish_of(sampling_params) is not None:
            check(sampling_params)

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        """V1's news of the batch, which the schedule has told already."""

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """V2: whether rows of this request are of interest."""
        return KEY in (sampling_params.extra_args or {})

    def observe(self, runner: Any, schedule: Any) -> None:
        """Begins and ends walks, as the schedule of a step says."""
        self._runner = weakref.ref(runner)
        for id in schedule.finished_req_ids:
            self._walks.end(id)
            self._prompts.pop(id, None)
        for new in schedule.scheduled_new_reqs:
            if new.sampling_params is None or KEY not in (new.sampling_params.extra_args or {}):
                continue
            prompt: list[int] = list(new.prompt_token_ids or ())
            # V2 adds a request anew that it had put aside; a session that goes on has another prompt.
            if new.req_id not in self._walks or self._prompts[new.req_id] != prompt:
                self._begin(new, prompt)

    def _begin(self, new: Any, prompt: list[int]) -> None:
        params = new.sampling_params
        try:
            wish = wish_of(params)
        except ValueError:
            # The front end has refused it.
            return
        if wish is None or wish.reject_id is None:
            return
        self._prompts[new.req_id] = prompt
        self._begun += 1

        # A request for n sequences has n children, whose ids begin with their numbers, and their seeds differ.
        child = re.match(r"(\d+)_", new.req_id)
        number = int(child[1]) if child else 0
        # vLLM's own generators of a seed end its engine on the CPU where a prompt is read in pieces; a wish has a seed without one.
        own = None if params.seed is None and wish.seed is None else ("seed", params.seed, wish.seed, number)

        def make() -> unskew.Walk:
            if getattr(new, "prompt_embeds", None) is not None:
                raise unskew.OptionError("a prompt of embeddings has no name by which walks could tell it from others: give its tokens")
            engine = self.engine()
            # The server adds the ends of the model's folder to those of the request.
            others = set(params.stop_token_ids or []) - {wish.reject_id} - self._ends
            if others:
                raise unskew.OptionError(f"the stop ids {sorted(others)} cut outputs off: name the `reject_id` alone")
            id = "" if self._ids_differ else new.req_id
            return engine.begin(
                wish.constraint,
                prompt,
                seed=seed_of(*(own or (self._nonce, id, self._begun))),
                alone=own is not None,
                max_tokens=self._max_tokens(params.max_tokens, len(prompt)),
                mode=wish.mode,
                context=self._context(new),
                reject_id=wish.reject_id,
                timeout=DECIDED_SECONDS,
                fuel=compile_fuel(),
                **Warp.of(params).options(),
            )

        reply = None if wish.reply is None else (wish.reply, number)
        self._walks.begin(new.req_id, make, wish.reject_id, reply=reply, log_masks=wish.log_masks, alone=own is not None)

    def _context(self, new: Any) -> str:
        """All that the model's rows depend on beside the ids of the prompt: weights, adapter, images."""
        parts: list[Any] = [self._epoch]
        lora = getattr(new, "lora_request", None)
        if lora is not None:
            parts.append(["lora", lora.lora_name, lora.lora_int_id, lora.lora_path])
        for feature in getattr(new, "mm_features", None) or ():
            place = getattr(feature, "mm_position", None)
            parts.append([feature.identifier, getattr(place, "offset", None), getattr(place, "length", None)])
        return json.dumps(parts)

    def _max_tokens(self, max_tokens: int | None, prompt_len: int) -> int:
        room = self._max_model_len - prompt_len
        most = room if max_tokens is None else min(max_tokens, room)
        # vLLM counts the end.
        return max(0, most - 1)

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        if not len(self._walks):
            return logits
        if ctx is None:
            asked = self._asked_v1()
            if asked:
                force(logits, [row for _, _, row in asked], self._walks.step(asked, logits))
        else:
            self._apply_v2(logits, ctx)
        return logits

    def _asked_v1(self) -> list[Asked]:
        runner = self._runner()
        discarded = runner.discard_request_mask.np
        return [
            (id, len(runner.requests[id].output_token_ids), row)
            for row, id in enumerate(runner.input_batch.req_ids)
            if id in self._walks and not discarded[row]
        ]

    def _apply_v2(self, logits: torch.Tensor, ctx: Any) -> None:
        requests = self._runner().req_states.index_to_req_id
        positions = ctx.pos.tolist()
        if len(positions) == len(ctx.idx_mapping_np):
            slots, fed = ctx.idx_mapping_np.tolist(), []
        else:
            slots, fed = ctx.expanded_idx_mapping.tolist(), ctx.input_ids.tolist()
        # The rows of a request come one after the other, those of its drafts after its own.
        of: dict[str, list[Asked]] = {}
        for row, (slot, position) in enumerate(zip(slots, positions)):
            id = requests.get(int(slot))
            if id in self._walks and position + 1 >= int(self._state.prefill_len.np[slot]):
                of.setdefault(id, []).append((id, position + 1 - int(self._state.prompt_len.np[slot]), row))
        forced: dict[int, int] = {}
        now = [rows.pop(0) for rows in of.values()]
        while now:
            chosen = self._walks.step(now, logits)
            after = []
            for (id, _, row), token in zip(now, chosen):
                forced[row] = token
                # A draft that is not what the walk has chosen is rejected by the row before it, and the rows after it are not read.
                if of[id] and fed[of[id][0][2]] == token:
                    after.append(of[id].pop(0))
                else:
                    forced.update((rest[2], token) for rest in of[id])
                    of[id] = []
            now = after
        if forced:
            force(logits, list(forced), list(forced.values()))

    def engine(self) -> unskew.Faithful:
        """The walks of this process, made when they are first needed."""
        if self._engine is None:
            model = self.config.model_config
            tokenizer = cached_tokenizer_from_config(model_config=model)
            self._ends = {*ends_of(model), tokenizer.eos_token_id}
            self._engine = unskew.Faithful(compiler_of_model(model, tokenizer), row_len=model.get_vocab_size())
        return self._engine

    def results(self, name: str) -> dict[str, Any]:
        """The results of walks by the `reply` of their requests, and which process has them: processes of one name have learned the same."""
        replica = self._nonce
        if self._is_sharded:
            replica += f" {id(self)}"
        return {"replica": replica, **self._walks.results(name)}

    def forget(self) -> None:
        """The weights were replaced: what was learned about them is forgotten, and outputs under way are rejected."""
        self._epoch += 1
        if self._engine is not None:
            self._engine.forget()


def _agreed(text: str) -> str:
    """The text of the first of the ranks that share a batch."""
    from vllm.distributed import parallel_state

    try:
        group = parallel_state.get_tp_group()
    except AssertionError:
        # No ranks: a test, or a model that runs alone.
        return text
    return group.broadcast_object(text, src=0) if group.world_size > 1 else text


def observe(runner: Any, schedule: Any) -> None:
    """What a runner's step begins with: tells its processors the schedule."""
    for processor in list(_processors):
        if processor.config is runner.vllm_config:
            processor.observe(runner, schedule)


def check_request(params: SamplingParams, model_config: Any, tokenizer: Any) -> None:
    """Checks a wish in the front end, before `validate_params`, which has no tokenizer. Raises `VLLMValidationError`: an HTTP 400."""
    try:
        wish = wish_of(params)
        if wish is None:
            return
        check(params)
        if not any(each is Faithful or str(each) == "unskew.vllm:Faithful" for each in model_config.logits_processors or []):
            raise ValueError("the server has no processor for faithful outputs: start it with `--logits-processors unskew.vllm:Faithful`")
        if tokenizer is None:
            raise ValueError("constraints need the tokenizer: start without `skip_tokenizer_init`")
        others = set(params.stop_token_ids or []) - {wish.reject_id, tokenizer.eos_token_id, *ends_of(model_config)}
        if others:
            raise ValueError(f"the stop ids {sorted(others)} cut outputs off: name the `reject_id` alone")
        compiler = compiler_of_model(model_config, tokenizer)
        compile(compiler, wish.constraint)
        unskew.Faithful(compiler, reject_id=wish.reject_id, row_len=model_config.get_vocab_size())
    except REFUSED as error:
        text = message_of(error)
        raise VLLMValidationError(text if text.startswith(f"`{KEY}`") else f"`{KEY}`: {text}") from error


def worker_results(name: str) -> str:
    """The results of this process, as JSON: a list with an element for each processor."""
    return json.dumps([processor.results(name) for processor in list(_processors)])


def worker_forget() -> None:
    """Forgets what this process has learned about the model."""
    for processor in list(_processors):
        processor.forget()


def faithful_params(
    constraint: unskew.Constraint,
    tokenizer: Any,
    *,
    mode: str = "cars",
    reject_id: int | None = None,
    reply: str | None = None,
    seed: int | None = None,
    end: str | None = None,
    **options: Any,
) -> SamplingParams:
    """The parameters of requests for faithful outputs: `llm.generate(prompts, faithful_params(constraint, llm.get_tokenizer(), n=100))`.

    Outputs whose `stop_reason` is `params.stop_token_ids[0]` are rejected walks: drop them, keep the order, and ask for more. With a `reply`
    of your own, `llm.collective_rpc("unskew_results", args=(reply,))` tells their log-probabilities and weights. `end` says who ends an
    output, as of `Constraint.with_end`.
    """
    if end is not None:
        constraint = constraint.with_end(end)
    if reject_id is None:
        reject_id = unskew.Faithful(compiler_of(tokenizer, len(tokenizer))).reject_id
    wish = {"constraint": constraint.to_json(), "mode": mode, "reject_id": reject_id, "reply": reply, "seed": seed}
    options.setdefault("max_tokens", 256)
    params = SamplingParams(stop_token_ids=[reject_id], extra_args={KEY: wish}, **options)
    wish_of(params)
    check(params)
    return params
