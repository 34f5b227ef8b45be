"""Masks over tensors of torch where they lie, by operations that torch has on every device: no logits are copied to the host."""

from __future__ import annotations

from typing import Any

import torch

from . import _unskew
from ._errors import MatcherError

__all__ = ["allowed", "apply"]


def allowed(mask: torch.Tensor, width: int, device: torch.device) -> torch.Tensor:
    """The rows of a mask of int32 as `width` truth values each, on a device. Ids beyond the mask are not allowed."""
    # The words cross, which are a thirty-second of that, and become bits there.
    bits = (mask.to(device, non_blocking=True).unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=device)) & 1
    rows = bits.flatten(-2).bool()[..., :width]
    return torch.nn.functional.pad(rows, (0, max(0, width - rows.shape[-1])))


def apply(logits: torch.Tensor, mask: Any) -> None:
    """`unskew.apply` for a tensor of any device, type of floating point and layout."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.is_contiguous():
        _unskew.apply(logits, mask)
        return
    if not logits.is_floating_point():
        raise MatcherError(f"`logits` are of {logits.dtype}: give a tensor of floating point")
    words = torch.as_tensor(mask)
    if words.dtype == torch.uint32:
        words = words.view(torch.int32)
    if words.dtype != torch.int32:
        raise MatcherError(f"`mask` is of {words.dtype}: give words of int32 or uint32")
    for name, tensor in (("logits", logits), ("mask", words)):
        if tensor.ndim not in (1, 2):
            raise MatcherError(f"`{name}` has {tensor.ndim} dimensions: give 1 or 2")
    rows, mask_rows = (len(tensor) if tensor.ndim == 2 else 1 for tensor in (logits, words))
    if rows != mask_rows:
        raise MatcherError(f"`logits` have {rows} rows and `mask` has {mask_rows}")
    forbidden = ~allowed(words, logits.shape[-1], logits.device)
    # As the other path does: what is written has no gradient.
    logits.detach().masked_fill_(forbidden.view(logits.shape), float("-inf"))
