"""Outputs of a server over plain HTTP, with the standard library alone: what the clients of all servers share."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from .._errors import SampleError

__all__ = ["Output", "Result", "ServerError", "call"]


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
