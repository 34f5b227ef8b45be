"""Asks a server of SGLang for outputs from P(output | constraint), over plain HTTP.

Outputs are taken in the order in which they were asked for, and not as they finish: short ones finish first, so that the first to
finish would be a biased sample.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import unskew

from ._requests import PROCESSOR


@dataclass(frozen=True)
class Output:
    """One output."""

    ids: list[int]
    text: str
    #: The natural logarithm of the probability that the model itself gives it, its end included.
    log_prob: float
    #: The logarithm of the weight that an average over outputs must give this one; 0 but for the modes `weights` and `twist`.
    log_weight: float


@dataclass(frozen=True)
class Outputs:
    """Outputs, with what was learned about the constraint."""

    outputs: list[Output]
    #: How many walks it took.
    walks: int
    #: The estimate of the logarithm of P(constraint), and its relative error, as the last walk knew them.
    log_estimate: float | None
    relative_error: float | None


def sample(
    url: str,
    prompt: str | Sequence[int],
    constraint: unskew.Constraint,
    *,
    n: int,
    max_tokens: int,
    temperature: float = 1.0,
    mode: str = "cars",
    batch: int = 32,
    max_walks: int | None = None,
    timeout: float = 600.0,
) -> Outputs:
    """`n` outputs for `prompt` (a text, or ids) of the server at `url`, which was started with `--enable-custom-logit-processor`.

    An output has at most `max_tokens` ids, the end not counted. `batch` walks are asked for in one request. `max_walks` (by default
    1,000 for each output) bounds them all. Raises `SampleError` for an answer of the server that is an error, and where the walks are
    over.
    """
    if max_walks is None:
        max_walks = 1000 * n
    outputs: list[Output] = []
    walks, last = 0, None
    while len(outputs) < n:
        count = min(batch, max_walks - walks)
        if count <= 0:
            raise unskew.SampleError(f"{walks} walks gave {len(outputs)} of {n} outputs: raise `max_walks`, or widen the constraint")
        for answer in _generate(url, prompt, constraint, count, max_tokens, temperature, mode, timeout):
            walks += 1
            result = next((part for part in reversed(answer["meta_info"].get("unskew") or []) if part is not None), None)
            if result is None:
                raise unskew.SampleError(f"no walk went along: {answer['meta_info'].get('finish_reason')}")
            last = result
            if result["accepted"] and len(outputs) < n:
                outputs.append(_output(answer, result))
    return Outputs(outputs, walks, last and last["log_estimate"], last and last["relative_error"])


def _output(answer: dict[str, Any], result: dict[str, Any]) -> Output:
    ids = list(answer["output_ids"])
    # The end was sampled too.
    return Output(ids[:-1], answer["text"], result["log_prob"], result["log_weight"])


def _generate(
    url: str,
    prompt: str | Sequence[int],
    constraint: unskew.Constraint,
    count: int,
    max_tokens: int,
    temperature: float,
    mode: str,
    timeout: float,
) -> list[dict[str, Any]]:
    params = {
        # The end is one of the tokens that SGLang counts.
        "max_new_tokens": max_tokens + 1,
        "temperature": temperature,
        "custom_params": {"unskew": json.dumps({"constraint": constraint.to_json(), "mode": mode})},
    }
    name, value = ("text", prompt) if isinstance(prompt, str) else ("input_ids", list(prompt))
    body = {
        name: [value] * count,
        "sampling_params": [params] * count,
        "custom_logit_processor": [PROCESSOR] * count,
    }
    request = urllib.request.Request(
        url.rstrip("/") + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise unskew.SampleError(f"the server answers {error.code}: {error.read().decode(errors='replace')}") from None
    except OSError as error:
        raise unskew.SampleError(f"{url}: {error}") from None
