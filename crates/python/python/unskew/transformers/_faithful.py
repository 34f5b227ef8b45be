"""Outputs from the model's own distribution under a constraint, as a `custom_generate` of `transformers`.

The samplers are those of `unskew.sample`, over the model as a function (`_model`). This file reads the arguments of `generate`. All that
would give another distribution than the one that was asked for is refused by name, since `generate` takes it from many places: its own
defaults (`top_k` is 50), the model's `generation_config.json`, and its arguments.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers.generation import stopping_criteria as criteria
from transformers.utils.generic import ModelOutput

from .._errors import OptionError, SampleError
from .._unskew import Draw, Tokenizer, sample
from ._model import Model

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

#: The processors of `generate` that `faithful` has itself, with the options that ask for them.
_OWN = {"TemperatureLogitsWarper": "temperature", "TopKLogitsWarper": "top_k", "TopPLogitsWarper": "top_p"}

#: How options of other processors are switched off that generation configs of published models have.
_OFF = {
    "RepetitionPenaltyLogitsProcessor": "`repetition_penalty=1.0`",
    "NoRepeatNGramLogitsProcessor": "`no_repeat_ngram_size=0`",
    "MinPLogitsWarper": "`min_p=None`",
    "MinLengthLogitsProcessor": "`min_length=0`",
    "SuppressTokensLogitsProcessor": "`suppress_tokens=None`",
}

#: Arguments for the model that `generate` adds by itself.
_ADDED = {"attention_mask", "position_ids", "cache_position", "past_key_values", "cache", "use_cache", "logits_to_keep"}

#: Options of a generation that have no meaning here, with the values that ask for nothing.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "num_beams": (1, None),
    "prompt_lookup_num_tokens": (None,),
    "assistant_early_exit": (None,),
    "output_scores": (False, None),
    "output_logits": (False, None),
    "output_attentions": (False, None),
    "output_hidden_states": (False, None),
}


@dataclass
class FaithfulOutput(ModelOutput):
    """What `generate(custom_generate=faithful)` answers with. Rows are outputs, `num_return_sequences` for each prompt.

    - `sequences`: ids, the prompt in front, the end of the sequence and padding after them.
    - `texts`: the outputs alone.
    - `log_probs`: the natural logarithms of the probabilities that the model itself gives the outputs, their ends included.
    - `log_weights`: the logarithms of the weights that averages must give the outputs; all 0 for exact samplers.
    - `log_masses`: for each prompt, the logarithm of an estimate of P(constraint), the probability that the model satisfies the constraint
      by itself. NaN where the sampler gives none.
    - `evaluated`: positions that the model evaluated.
    - `explain`: the sampler and the distribution of its outputs.
    - `seeds`: for each prompt, the seed that decides its outputs.
    - `draws`: the outputs with their costs, as of `unskew.sample`.
    """

    sequences: torch.Tensor
    texts: list[str] | None = None
    log_probs: torch.Tensor | None = None
    log_weights: torch.Tensor | None = None
    log_masses: torch.Tensor | None = None
    evaluated: int | None = None
    explain: str | None = None
    seeds: list[int] | None = None
    draws: list[Draw] | None = None


def faithful(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    logits_processor: Iterable[Any] | None = None,
    stopping_criteria: Iterable[Any] | None = None,
    generation_config: GenerationConfig | None = None,
    *,
    constraint: Any = None,
    tokens: Any = None,
    sampler: str = "auto",
    seed: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    batch: int = 16,
    kv_bytes: int = 1 << 30,
    progress: bool = False,
    end: str | None = None,
    time_limit: float | None = None,
    **model_kwargs: Any,
) -> FaithfulOutput:
    """Draws from P(output | constraint), for `generate(custom_generate=unskew.transformers.faithful)`.

        out = model.generate(
            **inputs, custom_generate=unskew.transformers.faithful, constraint=constraint, tokens=tokenizer, max_new_tokens=64,
            num_return_sequences=10, do_sample=True, top_k=0  # `generate` wants the former for the first, and its `top_k` is 50
        )
        print(out.texts, out.log_masses)

    `tokens` is the model's tokenizer: a fast one of `transformers`, or an `unskew.Tokenizer`. `sampler` is a name with parameters, as of
    `unskew.sample` (`unskew.methods()` lists them): "cars" and "disc" are exact; the outputs of "smc" and "masked" carry weights.
    `temperature`, `top_k` and `top_p` given here change the model before the mask, and its distribution is then that of
    the changed model. `seed` decides the outputs; without it, torch's generator does. `batch` outputs are drawn at once, and `kv_bytes`
    bound the keys and values that are kept. `progress` shows a bar. `end` says who ends an output, as of `unskew.sample`. `time_limit`, or
    `max_time` of `generate`, ends the drawing of each prompt after so many seconds, by a `SampleError`.

    An output has at most `max_new_tokens` ids, its end included, and the limit is a part of the constraint.

    Raises `OptionError` for all that would give another distribution: processors of logits, among them those that the model's
    `generation_config.json` or the defaults of `generate` ask for (give `temperature=1.0`, `top_k=0`, `top_p=1.0` for the model as
    it is), stopping criteria beside length and end, beams, and inputs that are no ids. Raises `SampleError` where the sampler has no output.
    """
    if constraint is None:
        raise OptionError("`constraint` is missing: give an `unskew.Constraint` or a type")
    if generation_config is None:
        raise OptionError("faithful is an argument of `generate`: call `model.generate(..., custom_generate=faithful)`")
    rows = Model(model, kv_bytes=kv_bytes)
    told = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    _check_processors(logits_processor or (), told)
    stopping = list(stopping_criteria or ())
    most = _longest(stopping, generation_config) - input_ids.shape[1]
    if time_limit is None:
        time_limit = next((one.max_time for one in stopping if isinstance(one, criteria.MaxTimeCriteria)), None)
    _check_rest(generation_config, model_kwargs)
    if most < 2:
        raise OptionError(f"`max_new_tokens` is {most}: an output has one id at least and its end")
    ids_of_end = _end_ids(generation_config)
    tokenizer = _tokenizer(tokens, model.config.get_text_config(decoder=True).vocab_size, ids_of_end)
    n = generation_config.num_return_sequences or 1
    prompts = _prompts(input_ids, model_kwargs.get("attention_mask"), n)
    if seed is None:
        # Numbers that every signed and unsigned type of 64 bits has.
        seeds = torch.randint(2**62, (len(prompts),)).tolist()
    else:
        seeds = [seed + at for at in range(len(prompts))]
    draws: list[Draw] = []
    masses: list[float] = []
    explain = ""
    bar = _bar(progress, n * len(prompts))

    def watched(prefixes: list[list[int]]) -> Any:
        logits = rows(prefixes)
        bar.set_postfix_str(f"{rows.evaluated} positions")
        return logits

    for prompt, prompt_seed in zip(prompts, seeds):
        drawing = sample(
            watched if progress else rows,
            constraint,
            tokenizer,
            n=n,
            sampler=sampler,
            seed=prompt_seed,
            prompt=prompt,
            max_tokens=most - 1,
            batch=batch,
            temperature=1.0 if temperature is None else temperature,
            top_k=None if top_k == 0 else top_k,
            top_p=None if top_p == 1.0 else top_p,
            end=end,
            time_limit=time_limit,
        )
        before = len(draws)
        for draw in drawing:
            draws.append(draw)
            bar.update()
        if len(draws) - before < n:
            raise SampleError(f"{sampler} has {len(draws) - before} outputs, and `num_return_sequences` is {n}")
        explain = drawing.explain
        masses.append(math.nan if drawing.log_mass is None else drawing.log_mass)
    bar.close()
    resampled = [draw.effective for draw in draws if draw.effective is not None]
    if resampled:
        nats = sum(math.log1p(1 / effective) for effective in resampled) / len(resampled)
        warnings.warn(
            f"{len(resampled)} of {len(draws)} outputs were resampled when the tries of {sampler!r} were used up: as far as the weights of "
            f'their proposals tell, they are within {nats:.2f} nats of the model\'s distribution; `sampler="cars"` goes on until an output is '
            "exact",
            stacklevel=2,
        )
    return FaithfulOutput(
        sequences=_sequences(input_ids, draws, ids_of_end, generation_config),
        texts=[draw.text for draw in draws],
        log_probs=torch.tensor([draw.log_prob for draw in draws], dtype=torch.float64),
        log_weights=torch.tensor([draw.log_weight for draw in draws], dtype=torch.float64),
        log_masses=torch.tensor(masses, dtype=torch.float64),
        evaluated=rows.evaluated,
        explain=explain,
        seeds=seeds,
        draws=draws,
    )


def _check_processors(processors: Iterable[Any], told: dict[str, Any]) -> None:
    """Refuses processors of logits, but those whose option was given to `faithful` itself."""
    for processor in processors:
        name = type(processor).__name__
        option = _OWN.get(name)
        if option is None:
            off = _OFF.get(name, "leave its option out")
            raise OptionError(
                f"{name} changes the model's distribution: switch it off ({off}), also where the model's generation config asks for it"
            )
        if told[option] is None:
            off = {"temperature": "temperature=1.0", "top_k": "top_k=0", "top_p": "top_p=1.0"}[option]
            value = getattr(processor, option)
            raise OptionError(
                f"`{option}` is {value} by the model's generation config or the defaults of `generate`, which changes the "
                f"distribution: say `{off}` for the model as it is, or `{option}={value}` for the model so changed"
            )


def _longest(stopping: Iterable[Any], config: GenerationConfig) -> int:
    """The most ids of a row, its prompt included."""
    most: int = config.max_length
    for criterion in stopping:
        if isinstance(criterion, criteria.MaxLengthCriteria):
            most = criterion.max_length
        elif not isinstance(criterion, (criteria.EosTokenCriteria, criteria.MaxTimeCriteria)):
            raise OptionError(
                f"{type(criterion).__name__} ends outputs, and so changes their distribution: leave it out; the constraint says where an "
                "output ends"
            )
    return most


def _check_rest(config: GenerationConfig, model_kwargs: dict[str, Any]) -> None:
    for option, nothing in _REFUSED.items():
        value = getattr(config, option, None)
        if value not in nothing:
            raise OptionError(f"`{option}` is {value}, which faithful sampling does not have: leave it out")
    for name, value in model_kwargs.items():
        if name not in _ADDED and value is not None:
            raise OptionError(f"`{name}` is an input of the model beside its ids, which faithful sampling does not have: leave it out")
    # The second name is that of transformers from 5.24 on.
    for name in ("past_key_values", "cache"):
        cache = model_kwargs.get(name)
        if cache is not None and cache.get_seq_length() > 0:
            raise OptionError(f"`{name}` is filled: leave it out; keys and values are kept by faithful sampling itself")


def _end_ids(config: GenerationConfig) -> list[int]:
    end = config.eos_token_id
    if isinstance(end, torch.Tensor):
        end = end.tolist()
    ids: list[int] = [end] if isinstance(end, int) else list(end or ())
    if not ids:
        raise OptionError("`eos_token_id` is missing: an output has an end")
    return ids


#: The tokenizers that were made: of each tokenizer of `transformers` the last one.
_made: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Tokenizer]] = weakref.WeakKeyDictionary()


def _tokenizer(tokens: Any, vocab_size: int, end: list[int]) -> Tokenizer:
    if tokens is None:
        raise OptionError("`tokens` is missing: give the model's tokenizer, a fast one of transformers or an `unskew.Tokenizer`")
    if isinstance(tokens, Tokenizer):
        if set(tokens.eos) != set(end):
            raise OptionError(
                f"outputs end at the ids {sorted(tokens.eos)} by the tokenizer and at {sorted(end)} by `eos_token_id`: give one of them "
                "to the other (`unskew.Tokenizer.from_hf(tokenizer, eos=...)`)"
            )
        return tokens
    # Added tokens are a part of it.
    key = (vocab_size, tuple(end), len(tokens))
    made = _made.get(tokens)
    if made is None or made[0] != key:
        made = (key, Tokenizer.from_hf(tokens, vocab_size=vocab_size, eos=end))
        _made[tokens] = made
    return made[1]


def _prompts(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, n: int) -> list[list[int]]:
    """The prompts without their padding. `generate` has written each of them `n` times."""
    rows: list[list[int]] = input_ids[::n].tolist()
    if attention_mask is None:
        return rows
    prompts = []
    for ids, seen in zip(rows, attention_mask[::n].tolist()):
        first = len(seen) - sum(seen)
        if any(seen[:first]) or not all(seen[first:]):
            raise OptionError('prompts must be padded on the left alone: `tokenizer.padding_side = "left"`')
        prompts.append(ids[first:])
    return prompts


def _sequences(
    input_ids: torch.Tensor, draws: list[Draw], end: list[int], config: GenerationConfig
) -> torch.Tensor:
    outputs = [[*draw.ids, end[0]] if draw.finish == "stop" else draw.ids for draw in draws]
    longest = max((len(ids) for ids in outputs), default=0)
    padding = config.pad_token_id
    padding = end[0] if padding is None else int(padding)
    padded = [ids + [padding] * (longest - len(ids)) for ids in outputs]
    return torch.cat([input_ids, torch.tensor(padded, dtype=input_ids.dtype, device=input_ids.device)], dim=1)


class _Silent:
    def update(self) -> None:
        pass

    def set_postfix_str(self, _text: str) -> None:
        pass

    def close(self) -> None:
        pass


def _bar(progress: bool, total: int) -> Any:
    if not progress:
        return _Silent()
    # transformers itself depends on it.
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="output")
