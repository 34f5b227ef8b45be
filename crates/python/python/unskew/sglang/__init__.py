"""SGLang with the masks of unskew, and with outputs from P(output | constraint).

`python -m sglang.launch_server --grammar-backend unskew ...` is all: SGLang finds `register` by the entry point
`sglang.srt.plugins` of this package, and calls it in each of its processes.

| part | its subject |
|---|---|
| `register` | the name `unskew` in SGLang's registry of grammar backends |
| `Backend`, `Grammar` | SGLang's interface: requests, reasoning, structural tags, drafts |
| `Faithful` | a `CustomLogitProcessor` under which outputs follow the model's own distribution |
| `sample` | asks a server for such outputs, over HTTP |

Importing this module imports neither SGLang nor torch; its parts do.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._backend import Backend, Grammar
    from ._client import Output, Result, sample
    from ._faithful import Faithful

__all__ = ["Backend", "Faithful", "Grammar", "Output", "Result", "register", "sample"]

#: The name of the backend, for `--grammar-backend`.
NAME = "unskew"

_PARTS = {
    "Backend": "_backend",
    "Grammar": "_backend",
    "Faithful": "_faithful",
    "Output": "_client",
    "Result": "_client",
    "sample": "_client",
}


def register() -> None:
    """Registers the backend. SGLang calls it; a program that uses `sglang.Engine` may call it again."""
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices

    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
        HookRegistry.register("sglang.srt.constrained.grammar_manager.GrammarManager.process_req_with_grammar", _process, HookType.AROUND)
    register_grammar_backend(NAME, _create)
    # The process with the weights has it; the others need not.
    scheduler = sys.modules.get("sglang.srt.managers.scheduler")
    if scheduler is not None and not hasattr(scheduler.Scheduler.flush_cache, "__wrapped__"):
        scheduler.Scheduler.flush_cache = _forgetting(scheduler.Scheduler.flush_cache)


def _forgetting(before: Any) -> Any:
    """SGLang forgets its cache when weights are replaced. So must the walks."""

    @functools.wraps(before)
    def flush_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
        faithful = sys.modules.get("unskew.sglang._faithful")
        if faithful is not None:
            faithful.forget()
        return before(self, *args, **kwargs)

    return flush_cache


def _create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    from ._backend import create

    return create(server_args, tokenizer, vocab_size, eos_token_ids)


def _process(before: Any, manager: Any, req: Any) -> bool:
    from ._ahead import process

    return process(before, manager, req)


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_PARTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
