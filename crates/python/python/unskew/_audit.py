"""How far samplers move a model: `unskew.audit`, with a report that a notebook shows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import _unskew
from ._unskew import Model, Tokenizer

__all__ = ["Audit", "audit"]


class Audit:
    """The answer of `audit`: `lines` of numbers, a page, and the seed. A notebook shows the page, and `print` a table."""

    #: For each sampler a dict: `sampler`, `distribution`, `samples`, `kl_text` (nats, of texts), `kl_text_noise`, `tv_text`, `kl` (of
    #: sequences of tokens), `kl_by_weights`, `mass` (P(constraint)), `acceptance`, `ess`, ...
    lines: list[dict[str, Any]]
    #: The page: one HTML file with its plots inside.
    html: str
    seed: int

    def __init__(self, lines: list[dict[str, Any]], html: str, seed: int) -> None:
        self.lines, self.html, self.seed = lines, html, seed

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        from html import escape

        # In a frame, so that its style stays its own.
        page = escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'

    def __str__(self) -> str:
        def number(value: float | None, digits: int) -> str:
            return "-" if value is None else f"{value:.{digits}f}"

        rows = [("sampler", "outputs", "TV", "KL", "(noise)", "KL tokens", "weighted TV", "positions each", "accepted")]
        for line in self.lines:
            rows.append(
                (
                    line["sampler"],
                    str(line["samples"]),
                    number(line["tv_text"], 3),
                    number(line["kl_text"], 4),
                    number(line["kl_text_noise"], 4),
                    number(line.get("kl_by_weights", line["kl"]), 4),
                    number(line.get("tv_weighted"), 3),
                    number(line["lm_calls_per_sample"], 1),
                    f"{100 * line['acceptance']:.1f} %",
                )
            )
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        texts = ["  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]) for row in rows]
        errors = [f"{line['sampler']} stopped: {line['error']}" for line in self.lines if line.get("error")]
        return "\n".join(texts + errors)

    def __repr__(self) -> str:
        return f"<unskew.Audit of {', '.join(line['sampler'] for line in self.lines)}, seed {self.seed}>"


def audit(
    logits: Callable[[list[list[int]]], Any] | Model,
    constraint: Any,
    tokenizer: Tokenizer | None = None,
    *,
    samplers: Sequence[str] = ("masked", "cars"),
    n: int = 1000,
    seed: int | None = None,
    prompt: Any = None,
    max_tokens: int | None = None,
    batch: int = 16,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    progress: bool | Callable[[str, int], Any] = False,
    end: str | None = None,
    time_limit: float | None = None,
) -> Audit:
    """Draws `n` outputs of each sampler and compares them with the model's own distribution under the constraint.

    The arguments are those of `sample`, with one prompt. The target is not known for a model that is a function: it is made of the model's probabilities of
    all outputs that any sampler gave, normalised. So the divergences are lower bounds. `progress` shows a line on standard error, or
    is called with the name of a sampler and the number of its outputs. `time_limit` ends each sampler after so many seconds; what it has
    drawn by then is compared.
    """
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little") >> 2
    lines, page = _unskew.audit(
        logits,
        constraint,
        tokenizer,
        samplers=list(samplers),
        n=n,
        seed=seed,
        prompt=prompt,
        max_tokens=max_tokens,
        batch=batch,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        progress=progress,
        end=end,
        time_limit=time_limit,
    )
    import json

    return Audit(json.loads(lines), page, seed)


class Line:
    """A line on standard error that is written anew a few times a second, and wiped when all outputs are there."""

    def __init__(self, n: int | None) -> None:
        self.n = n
        self.last = 0.0

    def __call__(self, sampler: str, outputs: int) -> None:
        now, is_last = time.monotonic(), outputs == self.n
        if is_last or now - self.last > 0.2:
            self.last = now
            of = "" if self.n is None else f" of {self.n}"
            line = f"\r{sampler}: {outputs}{of} outputs "
            sys.stderr.write(line + "\r" + " " * len(line) + "\r" if is_last else line)
            sys.stderr.flush()
