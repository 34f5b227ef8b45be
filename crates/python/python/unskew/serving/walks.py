"""The walks of an engine's process, by the ids of its requests: what each sequence goes on with.

An engine asks about positions: a walk that has decided one answers again, so that nothing is counted here. Sequences may leave the batch
and come back, and lose the token that was in flight. Whatever goes wrong with a walk rejects its sequence, and nothing else.

Only rows that a walk needs are read: positions that were decided, and prefixes that other walks have seen, need none.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import unskew

from .compiling import message_of

__all__ = ["Asked", "Walks", "force", "result_of"]

#: The most results that wait to be asked for. A client that never asks holds no more.
MAX_RESULTS = 1 << 15

#: What ends a process on purpose.
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)

#: A request, the number of tokens of its output so far, and its row of logits.
Asked = tuple[Any, int, int]


@dataclass
class _Entry:
    walk: unskew.Walk | None
    reject_id: int
    #: Why there is no walk.
    error: str | None = None
    #: Where the result is to be found, and whether it lies there.
    reply: tuple[str, int] | None = None
    log_masks: bool = False
    #: Whether nothing is learned from others, nor by them.
    alone: bool = False
    is_told: bool = False


def result_of(walk: unskew.Walk | None, error: str | None = None, log_masks: bool = False) -> dict[str, Any]:
    """The result of a walk that is over, as JSON has it."""
    if walk is None:
        return {"accepted": False, "error": error}
    result: dict[str, Any] = {"accepted": bool(walk.accepted)}
    if walk.accepted:
        result |= {"log_prob": walk.log_prob, "log_weight": walk.log_weight}
        if log_masks:
            result["log_masks"] = walk.log_masks
    if walk.error is not None:
        result["error"] = walk.error
    return result


class Walks:
    """The walks of one process."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._entries: dict[Any, _Entry] = {}
        self._results: OrderedDict[str, dict[int, dict[str, Any]]] = OrderedDict()
        #: By the name of results: a walk of the task that they share, or the findings of tasks of their own.
        self._stats: dict[str, Any] = {}
        self._kept = 0

    def __contains__(self, id: Any) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def begin(
        self,
        id: Any,
        make: Callable[[], unskew.Walk],
        reject_id: int,
        *,
        reply: tuple[str, int] | None = None,
        log_masks: bool = False,
        alone: bool = False,
    ) -> None:
        """Begins a walk for a request that is new. One that cannot begin is rejected."""
        walk, error = None, None
        try:
            walk = make()
        except BaseException as problem:  # noqa: BLE001 - see above; a Rust panic is no Exception
            if isinstance(problem, _ENDS):
                raise
            error = message_of(problem)
            self._log.error("unskew: no walk for the request %s: %s", id, error)
        self._entries[id] = _Entry(walk, reject_id, error, reply, log_masks, alone)

    def walk(self, id: Any) -> unskew.Walk:
        """The walk of a request. Raises `SampleError` where it has failed."""
        entry = self._entries[id]
        if entry.walk is None or entry.walk.error is not None:
            raise unskew.SampleError(entry.error if entry.walk is None else entry.walk.error)
        return entry.walk

    def end(self, id: Any) -> None:
        """Forgets a request that is over, finished or not."""
        self._entries.pop(id, None)

    def step(self, asked: Sequence[Asked], logits: torch.Tensor) -> list[int]:
        """The id of each of the requests at its position."""
        entries = [self._entries[id] for id, _, _ in asked]
        ids = [entry.reject_id for entry in entries]
        of = {place: entry.walk for place, entry in enumerate(entries) if entry.walk is not None}
        if of:
            live, walks = list(of), list(of.values())
            positions, rows = [asked[place][1] for place in live], [asked[place][2] for place in live]
            try:
                found = _ids(walks, positions, logits, rows)
            except BaseException as problem:  # noqa: BLE001 - see above
                if isinstance(problem, _ENDS):
                    raise
                found = [self._alone(entries[place], of[place], asked[place], logits) for place in live]
            for place, id in zip(live, found):
                ids[place] = id
        for (id, _, _), entry in zip(asked, entries):
            self._tell(id, entry)
        return ids

    def _alone(self, entry: _Entry, walk: unskew.Walk, asked: Asked, logits: torch.Tensor) -> int:
        id, position, row = asked
        try:
            return _ids([walk], [position], logits, [row])[0]
        except BaseException as problem:  # noqa: BLE001 - see above
            if isinstance(problem, _ENDS):
                raise
            entry.walk, entry.error = None, message_of(problem)
            return entry.reject_id

    def _tell(self, id: Any, entry: _Entry) -> None:
        """Keeps the result of a walk that is over."""
        if entry.is_told or (entry.walk is not None and entry.walk.accepted is None):
            return
        entry.is_told = True
        result = result_of(entry.walk, entry.error, entry.log_masks)
        if result.get("error"):
            self._log.warning("unskew: the walk of the request %s was rejected: %s", id, result["error"])
        if entry.reply is None:
            return
        name, index = entry.reply
        self._results.setdefault(name, {})[index] = result
        if entry.walk is not None:
            self._stats[name] = unskew.merge_stats([self._stats.get(name), entry.walk.stats()]) if entry.alone else entry.walk
        self._kept += 1
        while self._kept > MAX_RESULTS and len(self._results) > 1:
            gone, results = self._results.popitem(last=False)
            self._stats.pop(gone, None)
            self._kept -= len(results)

    def results(self, name: str) -> dict[str, Any]:
        """The results of the walks of this name since they were last asked for, and the findings about their constraint."""
        results = self._results.pop(name, {})
        self._kept -= len(results)
        stats = self._stats.pop(name, None)
        return {"outputs": results, "stats": stats.stats() if isinstance(stats, unskew.Walk) else stats}


def _ids(walks: list[unskew.Walk], positions: list[int], logits: torch.Tensor, rows: list[int]) -> list[int]:
    known = unskew.known_walks(walks, positions)
    need = [place for place, id in enumerate(known) if id is None]
    if not need:
        return [id for id in known if id is not None]
    at = [rows[place] for place in need]
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.is_contiguous():
        # Read where they lie.
        array = logits.detach().numpy()
    else:
        array = logits[torch.tensor(at, device=logits.device)].to("cpu", torch.float32).numpy()
        at = list(range(len(need)))
    found = iter(unskew.step_walks([walks[place] for place in need], [positions[place] for place in need], array, at))
    return [next(found) if id is None else id for id in known]


def force(logits: torch.Tensor, rows: Sequence[int], ids: Sequence[int]) -> None:
    """Leaves one id in each of these rows."""
    at = torch.tensor(rows, device=logits.device)
    logits.index_fill_(0, at, float("-inf"))
    logits[at, torch.tensor(ids, device=logits.device)] = 0.0
