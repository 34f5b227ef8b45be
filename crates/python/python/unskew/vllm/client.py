"""n faithful outputs of a vLLM server, over plain HTTP and with the standard library alone.

```python
from unskew import Constraint
from unskew.vllm import client

result = client.complete(
    "http://localhost:8000/v1", "Kind regards,\\n", Constraint.choice(["Thomas Hansen", "Peter Costa"]),
    n=100, tokenizer="tokenizer.json",
)
for output in result.outputs:
    print(output.text, output.log_prob)
print(result.log_estimate, result.walks)
```

The server runs with `--logits-processors unskew.vllm:Faithful`.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import unskew

from ._rounds import Rounds, estimate, max_walks

__all__ = ["Output", "Result", "ServerError", "complete", "reject_id_of"]


class ServerError(unskew.SampleError):
    """The server refused the request, or gave an answer that is none."""

    status: int | None

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Output:
    """One output."""

    text: str
    #: The ids, the end included.
    ids: tuple[int, ...]
    #: The natural logarithm of the model's probability, the end included.
    log_prob: float


@dataclass(frozen=True)
class Result:
    """Outputs in the order in which their walks were asked for."""

    outputs: list[Output]
    #: How many sequences the server made.
    walks: int
    #: How many of them were accepted; more than there are outputs, where the last round gave more.
    accepted: int
    #: The logarithm of the estimate of P(constraint); None where the outputs do not tell one.
    log_estimate: float | None
    #: The standard error of the estimate, as a part of it.
    relative_error: float | None


def reject_id_of(tokenizer: str | os.PathLike[str] | unskew.Tokenizer) -> int:
    """The id that marks rejections for the tokens of a model: a `tokenizer.json`, or a loaded tokenizer."""
    if not isinstance(tokenizer, unskew.Tokenizer):
        tokenizer = unskew.Tokenizer.from_file(tokenizer)
    return unskew.Faithful(unskew.Compiler(tokenizer)).reject_id


def complete(
    base_url: str,
    prompt: str | list[int],
    constraint: unskew.Constraint,
    *,
    n: int = 1,
    model: str | None = None,
    tokenizer: str | os.PathLike[str] | unskew.Tokenizer | None = None,
    reject_id: int | None = None,
    mode: str = "cars",
    max_tokens: int = 256,
    temperature: float = 1.0,
    seed: int | None = None,
    walks: int | None = None,
    api_key: str | None = None,
    timeout: float = 600.0,
) -> Result:
    """n outputs from the model's own distribution under `constraint`, of at most `max_tokens` ids with the end.

    `tokenizer` tells which id marks rejections, or `reject_id` names one; `walks` is how many sequences are tried (default: 1,000 and
    100 for each output). `mode` is "cars" or "rejection". Raises `ServerError`, `OptionError`, and `SampleError` where the walks are
    used up.
    """
    if n < 1:
        raise unskew.OptionError(f"`n` is {n}: ask for at least one output")
    if mode not in ("cars", "rejection"):
        raise unskew.OptionError(f"there is no mode {mode!r} of exact outputs: take 'cars' or 'rejection'")
    if reject_id is None:
        if tokenizer is None:
            raise unskew.OptionError("give the `tokenizer` of the model, or the `reject_id` that marks rejections")
        reject_id = reject_id_of(tokenizer)
    if model is None:
        model = _call(f"{base_url}/models", None, api_key, timeout)["data"][0]["id"]
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": temperature,
        # A server takes others from the model's folder where the request says nothing.
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "logprobs": 0,
        "return_token_ids": True,
        "stop_token_ids": [reject_id],
        "vllm_xargs": {
            "unskew": json.dumps({"constraint": json.loads(constraint.to_json()), "mode": mode, "reject_id": reject_id})
        },
    }
    rounds = Rounds(n, max_walks(n) if walks is None else walks)
    while ask := rounds.next():
        if seed is not None:
            body["seed"] = seed + rounds.walks
        answer = _call(f"{base_url}/completions", {**body, "n": ask}, api_key, timeout)
        choices = sorted(answer.get("choices", []), key=lambda choice: choice["index"])
        if len(choices) != ask:
            raise ServerError(f"the server answered with {len(choices)} of {ask} sequences")
        for choice in choices:
            rounds.add(_output(choice, reject_id))
    if len(rounds.accepted) < n:
        raise unskew.SampleError(
            f"{len(rounds.accepted)} of {n} outputs in {rounds.walks} walks: the model rarely satisfies the constraint within "
            f"{max_tokens} tokens; allow more of either, or look into the server's log"
        )
    accepted = rounds.accepted
    found = estimate([output.ids for output in accepted], [output.log_prob for output in accepted])
    log_estimate, relative_error = found if found is not None else (None, None)
    return Result(rounds.outputs(), rounds.walks, len(accepted), log_estimate, relative_error)


def _output(choice: dict[str, Any], reject_id: int) -> Output | None:
    if choice.get("finish_reason") != "stop" or choice.get("stop_reason") == reject_id:
        return None
    ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
    if ids is None or logprobs is None:
        raise ServerError("the server answers without `token_ids` or `logprobs`: is it a vLLM of a known version?")
    log_probs = logprobs["token_logprobs"]
    if len(log_probs) != len(ids):
        raise ServerError(f"the server tells {len(log_probs)} log-probabilities of {len(ids)} ids")
    return Output(choice["text"], tuple(ids), float(sum(log_probs)))


def _call(url: str, body: dict[str, Any] | None, api_key: str | None, timeout: float) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    if api_key is not None:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            text = json.loads(text)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            pass
        raise ServerError(f"HTTP {error.code}: {text}", error.code) from error
    except (urllib.error.URLError, ValueError) as error:
        raise ServerError(f"{url}: {error}") from error
