"""unskew inside vLLM: exact masks as its backend of structured outputs, and outputs that follow the model's own law.

`vllm serve MODEL --structured-outputs-config.backend unskew` serves every kind of structured output by unskew, and
`--logits-processors unskew.vllm:Faithful` adds outputs from P(output | constraint), which masks alone do not give
(`unskew.vllm.client` asks for them over HTTP, `faithful_params` builds their parameters for the offline `LLM`).

vLLM has no entry point for a foreign backend, so that `install` replaces a few names; it says which. vLLM calls it in each of its
processes by the entry point `vllm.general_plugins`. With the offline `LLM` call it before, since the arguments are read before
plug-ins are loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._install import KNOWN, UnknownVersionError, install, plugin

if TYPE_CHECKING:
    from .backend import UnskewBackend as UnskewBackend
    from .faithful import Faithful as Faithful
    from .faithful import faithful_params as faithful_params

__all__ = ["KNOWN", "Faithful", "UnknownVersionError", "UnskewBackend", "faithful_params", "install", "plugin"]

#: Names whose modules import vLLM and torch.
_LAZY = {"Faithful": "faithful", "faithful_params": "faithful", "UnskewBackend": "backend"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
