"""Matchers for engines: whatever goes wrong with one ends its request, and nothing else.

An engine asks for masks in its step, without a guard: an exception there ends the process, with the requests of all clients. So none
leaves `Guarded`. A mask that cannot be made is a row with one id, and the token after it is refused, which is how engines end one request
with an error. A Rust panic is such an error too, though Python's `except Exception` does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import unskew

__all__ = ["Guarded", "fill_batch"]

T = TypeVar("T")

#: Up to so many masks are made on the engine's own thread: most take a microsecond, and to wake another thread takes longer.
ONE_THREAD = 128

#: What ends a process or a thread on purpose, and is no error of a mask.
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Guarded:
    """A matcher of one request. Only what ends the process leaves its methods.

    `last_id` is the one id of a row that stands for a mask that there is not.
    """

    def __init__(self, matcher: unskew.Matcher, last_id: int) -> None:
        self.matcher = matcher
        self.last_id = last_id
        #: Why a token was refused last.
        self.error: str | None = None
        # The matcher broke off in the middle of something: nothing more is asked of it.
        self._dead = False
        # The output after which there is no mask, and why. Drafts are tried and taken back, and another token may go on from before.
        self._stuck: tuple[list[int], str] | None = None
        # Engines hand over tokens after the end, and take them back with the others.
        self._after_end = 0

    def fill(self, mask: Any, row: int, rows: Any = None) -> None:
        """Writes the mask of the next token into a row. `rows` is the same memory, looked at once (`unskew.Rows`)."""
        if self._try(lambda: self._fill(mask if rows is None else rows, row), False):
            return
        mask[row] = 0
        # The words are signed.
        mask[row, self.last_id // 32] = (1 << self.last_id % 32) - (1 << 32 if self.last_id % 32 == 31 else 0)

    def _fill(self, rows: Any, row: int) -> bool:
        try:
            self.matcher.fill(rows, row)
        except unskew.MatcherError as error:
            # A limit, or nothing but stop ids that may not come yet: the state itself is sound.
            self._stuck = (self.matcher.ids, str(error))
            return False
        return True

    def accept(self, id: int) -> bool:
        """Appends a token. False: it is refused, and the request ends."""
        return self._try(lambda: self._accept(id), False)

    def _accept(self, id: int) -> bool:
        if self.matcher.is_terminated():
            self._after_end += 1
            return True
        if self._stuck is not None and self.matcher.ids == self._stuck[0]:
            self.error = self._stuck[1]
            return False
        try:
            if id >= 0 and self.matcher.accept(id):
                return True
            self.error = f"token {id} is not allowed after {len(self.matcher.ids)} tokens of output"
        except unskew.MatcherError as error:
            # An id beyond the vocabulary, or a limit. Nothing has changed.
            self.error = str(error)
        return False

    def validate(self, ids: Sequence[int]) -> int:
        """How many of `ids` would be taken."""
        return self._try(lambda: self._validate(ids), 0)

    def _validate(self, ids: Sequence[int]) -> int:
        if self.matcher.is_terminated():
            return 0
        end = next((at for at, id in enumerate(ids) if id < 0), len(ids))
        try:
            return self.matcher.validate(ids[:end])
        except unskew.MatcherError:
            return 0

    def rollback(self, count: int) -> None:
        """Takes back tokens, those after the end first."""
        ignored = min(count, self._after_end)
        self._after_end -= ignored
        self._try(lambda: self.matcher.rollback(count - ignored), None)

    def reset(self) -> None:
        """Back to the start."""
        self._after_end, self._stuck = 0, None
        self._try(self.matcher.reset, None)

    def is_terminated(self) -> bool:
        return self._try(self.matcher.is_terminated, False)

    def fork(self) -> Guarded:
        """Another request at the same place."""
        made = Guarded(self.matcher, self.last_id)
        made.error, made._dead, made._stuck, made._after_end = self.error, self._dead, self._stuck, self._after_end
        made.matcher = made._try(self.matcher.fork, self.matcher)
        return made

    def _try(self, work: Callable[[], T], otherwise: T) -> T:
        if self._dead:
            return otherwise
        try:
            return work()
        except BaseException as error:  # noqa: BLE001 - pyo3's PanicException is no Exception
            if isinstance(error, _ENDS):
                raise
            self._dead, self.error = True, f"{type(error).__name__}: {error}"
            return otherwise


def fill_batch(several: Sequence[Guarded], mask: Any, rows: Sequence[int]) -> None:
    """The masks of many requests in one call, which leaves Python to other threads."""
    left = list(zip(several, rows))
    try:
        live = [(guarded.matcher, row) for guarded, row in left if not guarded._dead]
        threads = 1 if len(live) <= ONE_THREAD else None
        unskew.fill_batch([matcher for matcher, _ in live], mask, rows=[row for _, row in live], threads=threads)
        left = [(guarded, row) for guarded, row in left if guarded._dead]
    except BaseException as error:  # noqa: BLE001 - see above
        if isinstance(error, _ENDS):
            raise
        # Some of them have no mask; which is not said.
    for guarded, row in left:
        guarded.fill(mask, row)
