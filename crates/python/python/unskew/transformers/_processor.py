"""Masks in `generate`: a `LogitsProcessor` that follows every row by its ids.

Rows have no names: beam search moves, copies and drops them between two calls. So a row is found by its ids: it must be a row of
the call before with one id more. Tried instead: a state for each place, which beams move away from; and the start of a new
generation wherever no row is known, which takes the jumps of assisted generation for one, and then masks from the wrong place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import transformers

from .._errors import MatcherError
from .._unskew import Compiled, Matcher, fill_batch


class LogitsProcessor(transformers.LogitsProcessor):
    """Forbids the tokens that a constraint does not allow, in every row, for one call of `generate`.

        processor = unskew.transformers.LogitsProcessor(compiled)
        model.generate(**inputs, logits_processor=[processor])

    `compiled` is one constraint for all prompts, or one for each. Prompts of different lengths are padded on the left, as `generate`
    wants them. `stop_ids` are the ids that end an output, by default the tokenizer's `eos`; they must be those that `generate` ends
    at. After its end, the scores of a row are left as they are. Ids beyond the tokenizer's are forbidden.

    Beam search keeps rows of probability zero where a constraint has fewer outputs than there are beams. With `beams=True`, such
    rows have minus infinity as all of their scores, and so as the score of an output that is returned for want of a valid one.
    Without it, a row with a token that is not allowed is an error: a later processor has changed the scores.

    Raises `MatcherError` for rows that do not go on from those of the call before: make a processor for each `generate`. Assisted
    generation and continuous batching call processors in other ways, and are refused so.
    """

    def __init__(
        self, compiled: Compiled | Sequence[Compiled], *, stop_ids: Sequence[int] | None = None, beams: bool = False
    ) -> None:
        each = [compiled] if isinstance(compiled, Compiled) else list(compiled)
        if not each:
            raise MatcherError("`compiled` is empty: give a compiled constraint, or one for each prompt")
        self._starts = [Matcher(one, stop_ids=stop_ids) for one in each]
        self._beams = beams
        #: The length of the rows of the call before; None before the first.
        self._length: int | None = None
        #: The rows of the call before: by constraint and ids the matcher, or None after a token that is not allowed.
        self._rows: dict[tuple[int, tuple[int, ...]], Matcher | None] = {}

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        if input_ids.ndim != 2:
            raise MatcherError(
                "the rows are not whole sequences of ids, as in continuous batching: give `generate` the prompts as one batch"
            )
        rows = self._follow([tuple(ids) for ids in input_ids.tolist()])
        distinct = {id(matcher): matcher for matcher in rows if matcher is not None}
        places = {key: place for place, key in enumerate(distinct)}
        mask = torch.zeros((len(distinct) + 1, max(start.mask_words for start in self._starts)), dtype=torch.int32)
        fill_batch(list(distinct.values()), mask)
        # The last row of the mask has no bit: it is that of dead beams.
        of_row = torch.tensor([len(distinct) if matcher is None else places[id(matcher)] for matcher in rows])
        ended = torch.tensor([matcher is not None and matcher.is_terminated() for matcher in rows])
        return _forbid(scores, mask, of_row, ended)

    def _follow(self, rows: list[tuple[int, ...]]) -> list[Matcher | None]:
        """The matcher of each row."""
        if len(rows) % len(self._starts) != 0:
            raise MatcherError(f"{len(self._starts)} constraints cannot be those of {len(rows)} rows: give one for each prompt")
        each = len(rows) // len(self._starts)
        length = len(rows[0]) if rows else 0
        now: dict[tuple[int, tuple[int, ...]], Matcher | None] = {}
        if self._length is None:
            now = {(at // each, ids): self._starts[at // each] for at, ids in enumerate(rows)}
        elif length != self._length + 1 or (not self._beams and self._have_ended()):
            raise MatcherError(
                f"rows of {length} ids do not go on from rows of {self._length}: make a processor for each `generate` (`beams=True` "
                "for beam search); assisted generation is not followed"
            )
        for at, ids in enumerate(rows):
            key = (at // each, ids)
            if key not in now:
                now[key] = self._next(at // each, ids)
        self._length, self._rows = length, now
        return [now[at // each, ids] for at, ids in enumerate(rows)]

    def _have_ended(self) -> bool:
        """Whether all rows of the call before had ended: `generate` makes no further call then, but for beams."""
        return all(matcher is not None and matcher.is_terminated() for matcher in self._rows.values())

    def _next(self, constraint: int, ids: tuple[int, ...]) -> Matcher | None:
        """The matcher after the last of `ids`."""
        before = self._rows.get((constraint, ids[:-1]), False)
        if before is False:
            raise MatcherError("a row does not go on from one of the call before: make a processor for each `generate`")
        if before is None or before.is_terminated():
            return before
        matcher = before.fork()
        if matcher.accept(ids[-1]):
            return matcher
        if self._beams:
            return None
        raise MatcherError(
            f"token {ids[-1]} of a row was not allowed: this processor must be the last one that changes scores (`beams=True` for "
            "beam search, which keeps rows of probability zero)"
        )

    def __repr__(self) -> str:
        return f"<unskew.transformers.LogitsProcessor of {len(self._starts)} constraints>"


def _forbid(
    scores: torch.FloatTensor, mask: torch.Tensor, of_row: torch.Tensor, ended: torch.Tensor
) -> torch.FloatTensor:
    """Scores with minus infinity where the row of the mask has no bit; ended rows are left as they are."""
    # The words cross to the device, and become bits there.
    mask, of_row, ended = (tensor.to(scores.device) for tensor in (mask, of_row, ended))
    bits = (mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=scores.device)) & 1
    allowed = bits.flatten(1).bool()[:, : scores.shape[-1]]
    missing = scores.shape[-1] - allowed.shape[-1]
    if missing > 0:
        allowed = torch.nn.functional.pad(allowed, (0, missing))
    return scores.masked_fill(~(allowed[of_row] | ended.unsqueeze(-1)), float("-inf"))
