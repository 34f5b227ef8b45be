"""Faithful outputs of an SGLang server, over plain HTTP: asks for walks until enough of them were accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import unskew

from ..serving.client import Output, Prompt, Result, call, prompt_of
from ..serving.outputs import Rounds
from ._requests import PROCESSOR

__all__ = ["Output", "Result", "sample"]


def sample(
    url: str,
    prompt: Prompt,
    constraint: Any,
    *,
    n: int,
    max_tokens: int,
    temperature: float = 1.0,
    mode: str = "cars",
    walks: int | None = None,
    log_masks: bool = False,
    template: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    timeout: float = 600.0,
    **options: Any,
) -> Result:
    """`n` outputs for `prompt` (a text, ids, or the messages of a chat) of the server at `url`, which was started with
    `--enable-custom-logit-processor`.

    Messages go through the chat template of the server's model; `template` are fields beside them, such as `tools` or
    `chat_template_kwargs`.

    An output has at most `max_tokens` ids, the end not counted. `temperature` and, in `options`, `top_p`, `top_k` and `min_p` define the
    model; those that are left out are the server's. `walks` bounds how many are tried (default: 1,000 and 100 for each output). In the
    modes "weights" and "twist" n walks are made, and those that come to an end have a weight each. Raises `ServerError`, and `SampleError`
    where the walks are over.
    """
    try:
        rounds = Rounds.of(n, walks, mode)
    except ValueError as error:
        raise unskew.OptionError(str(error)) from error
    params = {
        **options,
        # The end is one of the tokens that SGLang counts.
        "max_new_tokens": max_tokens + 1,
        "temperature": temperature,
        "custom_params": {"unskew": json.dumps({"constraint": unskew.Constraint.of(constraint).to_json(), "mode": mode, "log_masks": log_masks})},
    }
    value = prompt_of(url.rstrip("/"), prompt, template, api_key, timeout)
    name = "text" if isinstance(value, str) else "input_ids"
    last: dict[str, Any] = {}
    while ask := rounds.next():
        body = {name: [value] * ask, "sampling_params": [params] * ask, "custom_logit_processor": [PROCESSOR] * ask}
        answers = call(f"{url.rstrip('/')}/generate", body, api_key, timeout)
        outputs = []
        for answer in answers:
            last = _result(answer)
            outputs.append(_output(answer, last) if last["accepted"] else None)
        rounds.add(outputs)
    if rounds.is_short():
        raise unskew.SampleError(
            f"{len(rounds.accepted)} of {n} outputs in {rounds.walks} walks: allow more `walks`, or widen the constraint"
        )
    return Result(rounds.outputs(), rounds.walks, len(rounds.accepted), last["log_estimate"], last["relative_error"])


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] | None
    for part in reversed(answer["meta_info"].get("unskew") or []):
        if part is not None:
            return part
    raise unskew.SampleError(f"no walk went along: {answer['meta_info'].get('finish_reason')}")


def _output(answer: dict[str, Any], result: dict[str, Any]) -> Output:
    # The end was sampled too.
    ids = list(answer["output_ids"])[:-1]
    return Output(answer["text"], ids, result["log_prob"], result["log_weight"], result.get("log_masks"))
