"""Outputs of a server over plain HTTP, with the standard library alone: what the clients of all servers share."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from .._errors import OptionError, SampleError

__all__ = ["Output", "Prompt", "Result", "ServerError", "call", "prompt_of"]

#: A text, ids, or the messages of a chat, as of `unskew.sample`.
Prompt: TypeAlias = "str | Sequence[int] | Sequence[Mapping[str, Any]]"


class ServerError(SampleError):
    """The server refused the request, or gave an answer that is none."""

    status: int | None

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Output:
    """One output."""

    text: str
    #: The ids, without the end.
    ids: list[int]
    #: The natural logarithm of the probability that the model, at the temperature and after the truncation of the request, gives it, its
    #: end included.
    log_prob: float
    #: The logarithm of the weight that an average over outputs must give this one; 0 but for the modes `weights` and `twist`.
    log_weight: float
    #: The logarithms of the model's mass that each mask along the output leaves, where they were asked for.
    log_masks: list[float] | None = None


@dataclass(frozen=True)
class Result:
    """Outputs in the order in which their walks were asked for."""

    outputs: list[Output]
    #: How many sequences the server made.
    walks: int
    #: How many of them were accepted; more than there are outputs, where the last round gave more.
    accepted: int
    #: The logarithm of the estimate of P(constraint); None where nothing was learned.
    log_estimate: float | None
    #: The standard error of the estimate, as a part of it.
    relative_error: float | None


def call(url: str, body: dict[str, Any] | None, api_key: str | None, timeout: float) -> Any:
    """The answer of a server in JSON. Raises `ServerError`."""
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
    except (urllib.error.URLError, ValueError, OSError) as error:
        raise ServerError(f"{url}: {error}") from error


def prompt_of(url: str, prompt: Prompt, template: Mapping[str, Any] | None, api_key: str | None, timeout: float) -> str | list[int]:
    """The prompt as a text or ids. Messages become ids by the chat template of the model, which vLLM and SGLang have at the same route;
    `template` are fields beside them, such as `tools` and `chat_template_kwargs`. Raises `ServerError`."""
    if isinstance(prompt, str) or not prompt or not isinstance(prompt[0], Mapping):
        if template is not None:
            raise OptionError("`template` goes with the messages of a chat, and the prompt is a text or ids: leave it out")
        return prompt if isinstance(prompt, str) else cast("list[int]", list(prompt))
    answer = call(f"{url}/tokenize", {**(template or {}), "messages": list(prompt)}, api_key, timeout)
    return cast("list[int]", answer["tokens"])
