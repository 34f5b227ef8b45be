"""One compiler for the tokens of a model in each process, and threads that compile ahead of the engine.

Whoever asks (the check of a request, the masks, the walks), a constraint is compiled once, and not where it would hold up others: neither
on the event loop of a server nor in the step of an engine.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import unskew

from .._requests import COMPILE_FUEL, COMPILE_SECONDS, cache_bytes, compile_fuel, compile_seconds, limits

__all__ = ["DECIDED_SECONDS", "REFUSED", "ahead", "compile", "compiler_of", "message_of", "off_the_loop", "tokens_of"]

T = TypeVar("T")

#: What a constraint of a client may raise: our errors, and those of texts that no text is (lone surrogates, deep nests).
REFUSED = (unskew.Error, ValueError, TypeError, RecursionError, OverflowError)

_lock = threading.Lock()
_tokens: WeakKeyDictionary[Any, dict[Any, Tokens]] = WeakKeyDictionary()


class Tokens(NamedTuple):
    """The tokens of a model, and the compiler for them."""

    tokenizer: unskew.Tokenizer
    compiler: unskew.Compiler


def tokens_of(tokenizer: Any, rows: int, ends: Iterable[int] = ()) -> Tokens:
    """One for each tokenizer of this process. `rows` is the length of the model's rows, `ends` are the ids that end a sequence beside the
    tokenizer's own."""
    own = getattr(tokenizer, "eos_token_id", None)
    every: set[int] = {*ends, *([] if own is None else [own])}
    all_ends = tuple(sorted(every))
    with _lock:
        kept = _tokens.setdefault(tokenizer, {})
        key = (rows, all_ends)
        if key not in kept:
            # An operator's mistake is told at the start, and not at the first request.
            limits()
            compile_fuel()
            compile_seconds()
            # A tokenizer may have more ids than the model has rows.
            made = unskew.Tokenizer.from_hf(tokenizer, vocab_size=rows, eos=list(all_ends) or None)
            kept[key] = Tokens(made, unskew.Compiler(made, cache_bytes=cache_bytes()))
        return kept[key]


def compiler_of(tokenizer: Any, rows: int, ends: Iterable[int] = ()) -> unskew.Compiler:
    """The compiler of `tokens_of`."""
    return tokens_of(tokenizer, rows, ends).compiler


#: The deadline where fuel decides, or an earlier check of the same request has: a clock would decide for one process alone.
DECIDED_SECONDS = 600.0


def compile(compiler: unskew.Compiler, constraint: unskew.Constraint, seconds: float | None = None) -> unskew.Compiled:
    """The constraint, compiled within the limits of this process (or `seconds`), or kept from before. Fuel decides alike in all processes."""
    return compiler.compile(constraint, timeout=seconds or compile_seconds(), fuel=compile_fuel())


def ahead(compiler: unskew.Compiler, constraint: unskew.Constraint) -> Future[unskew.Compiled]:
    """Compiles on a thread of its own. Whoever asks the compiler meanwhile waits for the same work, and later ones get it at once, as does
    this function."""
    done: Future[unskew.Compiled] = Future()
    try:
        done.set_result(compiler.compile(constraint, timeout=0.0))
    except unskew.DeadlineError:
        return _pool().submit(compile, compiler, constraint)
    except REFUSED as error:
        done.set_exception(error)
    return done


async def off_the_loop(work: Callable[..., T], *arguments: Any) -> T:
    """`work(*arguments)` on a thread that compiles, for callers on an event loop."""
    return await asyncio.get_running_loop().run_in_executor(_pool(), work, *arguments)


@cache
def _pool() -> ThreadPoolExecutor:
    # Half of the processors, as vLLM has it: the others serve.
    return ThreadPoolExecutor(max(1, ((os.cpu_count() or 1) + 1) // 2), thread_name_prefix="unskew-compile")


# A child of `fork` has no threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


def message_of(error: BaseException) -> str:
    """What a client is told: the place and the reason."""
    place, text = getattr(error, "place", None), str(error) or type(error).__name__
    if isinstance(error, unskew.FuelError):
        return f"{text} ({COMPILE_FUEL})"
    if isinstance(error, unskew.DeadlineError):
        return f"{text} ({compile_seconds():g} seconds; {COMPILE_SECONDS})"
    return text if not place or place in text else f"{place}: {text}"
