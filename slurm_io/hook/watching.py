"""`watch(iterable)`: times the waits for any iterable that is no torch DataLoader."""

from __future__ import annotations

import copy

from . import record
from .clock import EpochClock, wrap_next
from .epoch_start import start_epoch
from .loaders import LOADERS, attribute, type_name
from .padding import PaddingLooks
from .session import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class _Forwarding:
    """Behaves as what it wraps: attributes are read and set there, copies made of it."""

    __slots__ = ("_watched", "_slurm_io", "__weakref__")

    def __init__(self, watched: Any, clock_or_loader: Any) -> None:
        object.__setattr__(self, "_watched", watched)
        object.__setattr__(self, "_slurm_io", clock_or_loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._watched, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._watched, name)

    def __repr__(self) -> str:
        return repr(self._watched)

    def __reduce__(self) -> Any:
        return copy.copy, (self._watched,)  # the process that unpickles it may not have us


class Watched(_Forwarding):
    """A watched iterable: each `iter` is an epoch with a clock of its own."""

    __slots__ = ()

    def __iter__(self) -> Any:
        clock = EpochClock(self._slurm_io)
        iterator = start_epoch(clock, lambda: iter(self._watched))
        return WatchedIterator(iterator, clock)


class SizedWatched(Watched):
    """The same for an iterable with a length (so `bool` and `len` say what they said)."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._watched)


def _next_of_watched(iterator: Any) -> Any:
    return next(iterator._watched)


class WatchedIterator(_Forwarding):
    """A watched iterator: every `next` is timed."""

    __slots__ = ()

    def __iter__(self) -> WatchedIterator:
        return self

    __next__ = wrap_next(_next_of_watched, lambda iterator: None)


def watch(
    iterable: Any, name: str | None = None, padding: Callable[[Any], Any] | None = None
) -> Any:
    """`iterable`, with the time that its consumer waits for each item recorded as data wait.

    The result can be iterated as often as the iterable can, and shows its length and attributes.
    With the hook off it is the iterable itself. A DataLoader needs no watching.

    `padding` is asked now and then how much of an item is padding: it takes the item and returns
    (tokens of padding, tokens), or None. Without it an ``attention_mask`` is looked at.
    """
    if SESSION.off or isinstance(iterable, (Watched, WatchedIterator)):
        return iterable
    try:
        loader = LOADERS.new(lambda owner: _describe(owner, name), iterable, record.WATCHED)
        if padding is not None:
            loader.padding = PaddingLooks(padding)
        if hasattr(type(iterable), "__next__"):
            return WatchedIterator(iterable, EpochClock(loader))
        kind = SizedWatched if hasattr(type(iterable), "__len__") else Watched
        return kind(iterable, loader)
    except Exception as error:
        SESSION.turn_off(error)
        return iterable


def _describe(iterable: Any, name: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "num_workers": attribute(iterable, "num_workers"),
        "batch_size": attribute(iterable, "batch_size"),
        "dataset": type_name(iterable),
    }
