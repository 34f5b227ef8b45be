"""Masks in `generate`: a `LogitsProcessor` that follows every row by its ids.

Rows have no names: beam search moves, copies and drops them between two calls. So a row is found by its ids: it must be a row of
the call before with one id more. The ids are compared where they lie, and the last ones alone come to the host. Tried instead: a state
for each place, which beams move away from; and the start of a new generation wherever no row is known, which takes the jumps of assisted
generation for one, and then masks from the wrong place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import transformers

from .._errors import MatcherError
from .._torch import allowed
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
        #: The ids of the call before, on their device; None before the first.
        self._ids: torch.Tensor | None = None
        #: The matcher of each of their rows, or None after a token that is not allowed. Rows that are equal share one.
        self._matchers: list[Matcher | None] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.ndim != 2:
            raise MatcherError(
                "the rows are not whole sequences of ids, as in continuous batching: give `generate` the prompts as one batch"
            )
        rows = self._follow(input_ids)
        distinct = {id(matcher): matcher for matcher in rows if matcher is not None}
        places = {key: place for place, key in enumerate(distinct)}
        mask = torch.zeros((len(distinct) + 1, max(start.mask_words for start in self._starts)), dtype=torch.int32)
        fill_batch(list(distinct.values()), mask)
        # The last row of the mask has no bit: it is that of dead beams.
        of_row = [len(distinct) if matcher is None else places[id(matcher)] for matcher in rows]
        ended = [matcher is not None and matcher.is_terminated() for matcher in rows]
        device = scores.device
        kept = allowed(mask, scores.shape[-1], device)[torch.tensor(of_row, device=device)]
        kept |= torch.tensor(ended, device=device).unsqueeze(-1)
        return scores.masked_fill(~kept, float("-inf"))

    def _follow(self, ids: torch.Tensor) -> list[Matcher | None]:
        """The matcher of each row."""
        if len(ids) % len(self._starts) != 0:
            raise MatcherError(f"{len(self._starts)} constraints cannot be those of {len(ids)} rows: give one for each prompt")
        if self._ids is None:
            each = len(ids) // len(self._starts)
            matchers: list[Matcher | None] = [start for start in self._starts for _ in range(each)]
        else:
            before, length = self._ids.shape[1], ids.shape[1]
            if length != before + 1 or (not self._beams and self._have_ended()):
                raise MatcherError(
                    f"rows of {length} ids do not go on from rows of {before}: make a processor for each `generate` (`beams=True` "
                    "for beam search); assisted generation is not followed"
                )
            made: dict[tuple[int, int], Matcher | None] = {}
            matchers = []
            for matcher, token in zip(self._parents(self._ids, ids[:, :-1]), ids[:, -1].tolist()):
                key = (id(matcher), token)
                if key not in made:
                    made[key] = self._next(matcher, token)
                matchers.append(made[key])
        # A copy: `generate` may write the next ids into the same memory.
        self._ids, self._matchers = ids.clone(), matchers
        return matchers

    def _parents(self, before: torch.Tensor, now: torch.Tensor) -> list[Matcher | None]:
        """Of each row the matcher of the row of the call before that has the same ids, for the same constraint."""
        if before.shape == now.shape and torch.equal(before, now):
            return self._matchers
        # Rows have moved: each is numbered, equal ones alike.
        numbers = torch.unique(torch.cat([before, now]), dim=0, return_inverse=True)[1].tolist()
        known = dict(zip(self._by_constraint(numbers[: len(before)]), self._matchers))
        try:
            return [known[key] for key in self._by_constraint(numbers[len(before) :])]
        except KeyError:
            raise MatcherError("a row does not go on from one of the call before: make a processor for each `generate`") from None

    def _by_constraint(self, numbers: list[int]) -> list[tuple[int, int]]:
        each = len(numbers) // len(self._starts)
        return [(at // each, number) for at, number in enumerate(numbers)]

    def _have_ended(self) -> bool:
        """Whether all rows of the call before had ended: `generate` makes no further call then, but for beams."""
        return all(matcher is not None and matcher.is_terminated() for matcher in self._matchers)

    def _next(self, before: Matcher | None, token: int) -> Matcher | None:
        """The matcher after one more token."""
        if before is None or before.is_terminated():
            return before
        matcher = before.fork()
        if matcher.accept(token):
            return matcher
        if self._beams:
            return None
        raise MatcherError(
            f"token {token} of a row was not allowed: this processor must be the last one that changes scores (`beams=True` for "
            "beam search, which keeps rows of probability zero)"
        )

    def __repr__(self) -> str:
        return f"<unskew.transformers.LogitsProcessor of {len(self._starts)} constraints>"
