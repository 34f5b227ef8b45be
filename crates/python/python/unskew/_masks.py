"""`unskew.apply`: which way logits go."""

from __future__ import annotations

import sys
from typing import Any

from . import _unskew

__all__ = ["apply"]


def apply(logits: Any, mask: Any) -> None:
    """Sets logits to minus infinity where a mask forbids them, in place. Ids beyond the mask are forbidden.

    `logits` are one row or several, as any writable buffer of float32, or a tensor of torch of any device and type of floating point, which
    is changed where it lies: nothing of it comes to the host. `mask` has as many rows, of int32 or uint32, on the host or a device. Raises
    `MatcherError`.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(logits, torch.Tensor):
        from ._torch import apply as apply_there

        apply_there(logits, mask)
    else:
        _unskew.apply(logits, mask)
