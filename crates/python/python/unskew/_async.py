"""Outputs for programs with an event loop: `unskew.asample`. asyncio, which takes 80 ms to import, is imported when it is called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ._unskew import Draw, sample

__all__ = ["asample"]


async def asample(*arguments: Any, **options: Any) -> AsyncIterator[Draw]:
    """The outputs of `sample`, whose arguments these are, as they come: `async for draw in asample(...)`.

    The samplers work on threads, and the loop goes on meanwhile. A model that is a function is called on a thread too. Where the task is
    cancelled, the output under way is drawn to its end in the background and given up.
    """
    import asyncio

    draws = await asyncio.to_thread(sample, *arguments, **options)
    loop = asyncio.get_running_loop()
    while True:
        under_way = loop.run_in_executor(None, next, draws, None)
        try:
            draw = await asyncio.shield(under_way)
        except asyncio.CancelledError:

            def give_up(done: asyncio.Future[Any]) -> None:
                done.exception()
                draws.close()

            under_way.add_done_callback(give_up)
            raise
        if draw is None:
            return
        try:
            yield draw
        except BaseException:
            draws.close()
            raise
