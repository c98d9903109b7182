"""Looks at a batch now and then: how much of it is padding.

Of a batch that is a mapping with an ``attention_mask`` (or begins with one): a plain CPU tensor of
two dimensions, one for a token and zero for padding. At most `_MOST_ELEMENTS` of it are counted, in
rows spread over the batch, which torch does on this thread alone. Nothing is looked at that would
make a GPU wait. A mask with zeros in the first and in the last column is no padding mask.

A look comes so seldom that it costs `_STEP_NS` a batch and `1 / _PAUSE` of the time at most, and
after the first `_MANY` no more often than every 30 s: a day's looks are few rows. After `_MISSES`
looks without a mask there are no more.
"""

from __future__ import annotations

import sys
from time import monotonic_ns

from . import record, text
from .session import SESSION, debug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FIRST_AT = 3  # batch of an epoch; the first ones come while everything starts
NEVER = -1
_LEAST_STEPS = 50
_STEP_NS = 200
_PAUSE = 5000
_MISSES = 3
_MANY, _LATER_NS = 32, 30_000_000_000
_MOST_ELEMENTS = 16384  # below the size from which torch shares work out to threads


class PaddingLooks:
    """Looks at the batches of one loader. `count`: the user's own, batch -> (padding, tokens)."""

    __slots__ = ("first_at", "_count", "_looks", "_misses", "_next_ns")

    def __init__(self, count: Callable[[Any], Any] | None = None) -> None:
        self.first_at = FIRST_AT
        self._count = count
        self._looks = 0
        self._misses = 0
        self._next_ns = 0

    def look(self, batch: Any, index: int, loader_id: int, epoch: int, now_ns: int) -> int:
        """Look at batch `index`, which came at `now_ns`; the index to look at next, or NEVER.

        Raises nothing of its own making: what fails ends the looking, not the hook.
        """
        if now_ns < self._next_ns:
            return index + _LEAST_STEPS
        try:
            return self._look(batch, index, loader_id, epoch, now_ns)
        except Exception as error:
            debug("padding: %r" % (error,))
            self.first_at = NEVER
            return NEVER

    def _look(self, batch: Any, index: int, loader_id: int, epoch: int, now_ns: int) -> int:
        began_ns = monotonic_ns()
        fields: dict[str, Any] = {"loader": loader_id, "epoch": epoch}
        found = _of_mask(batch) if self._count is None else _of_user(self._count(batch))
        if found is not None:
            self._misses = 0
            fields["padding"], fields["tokens"] = found
            if self._count is not None:
                fields["by"] = "user"
        else:
            self._misses += 1
            fields["masks"] = False
        is_over = self._misses >= _MISSES
        if found is not None or self._misses == 1:
            SESSION.event(0, record.PADDING, now_ns, now_ns, record.UNKNOWN, text.encode(fields))
        if is_over:
            self.first_at = NEVER
            return NEVER
        ended_ns = monotonic_ns()
        self._looks += 1
        later_ns = _LATER_NS if self._looks >= _MANY else 0
        self._next_ns = ended_ns + max(later_ns, _PAUSE * (ended_ns - began_ns))
        return index + max(_LEAST_STEPS, (ended_ns - began_ns) // _STEP_NS)


def _of_user(told: Any) -> tuple[int, int] | None:
    if told is None:
        return None
    padding, tokens = (int(one) for one in told)
    return (padding, tokens) if 0 <= padding <= tokens and tokens > 0 else None


def _of_mask(batch: Any) -> tuple[int, int] | None:
    """(padding, tokens) of the part that is counted; None where there is no such mask."""
    mask, torch = _mask_of(batch), sys.modules.get("torch")
    if mask is None or torch is None or type(mask) is not torch.Tensor or _is_watched(torch):
        return None
    if mask.dim() != 2 or mask.device.type != "cpu" or mask.layout is not torch.strided:
        return None
    rows, width = mask.shape
    if not 0 < width <= _MOST_ELEMENTS or not rows:
        return None
    part = mask[:: -(-rows * width // _MOST_ELEMENTS)]
    total, ones = part.numel(), int(part.count_nonzero())
    if ones < total and not (bool(part[:, 0].all()) or bool(part[:, -1].all())):
        return None
    return total - ones, total


def _mask_of(batch: Any) -> Any:
    if isinstance(batch, (tuple, list)) and batch:
        batch = batch[0]
    if not isinstance(batch, dict):
        batch = getattr(batch, "data", None)  # UserDict, as transformers' BatchEncoding is
    return dict.get(batch, "attention_mask") if isinstance(batch, dict) else None


def _is_watched(torch: Any) -> bool:
    """Does somebody look at every operation of torch? Ours would be among them."""
    depth = getattr(getattr(torch, "_C", None), "_len_torch_dispatch_stack", None)
    return depth is not None and depth() > 0
