"""Times torch's DataLoader: `_BaseDataLoaderIter.__next__` and, for starts, `DataLoader.__iter__`.

Every flavour of the loader goes through the former, torchdata's StatefulDataLoader too. The loop
object carries its clock in `_slurm_io`; such iterators refuse to be pickled, so it goes nowhere.
"""

from __future__ import annotations

import functools

from .clock import EpochClock, wrap_next
from .epoch_start import start_epoch
from .loaders import LOADERS, attribute, type_name
from .session import SESSION, in_loader_worker
from .span import is_marked, mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def patch(module: Any) -> None:
    """Wrap the classes of a freshly imported torch.utils.data.dataloader."""
    patch_next(module._BaseDataLoaderIter, "__next__")
    patch_iter(module.DataLoader)


def patch_stateful(module: Any) -> None:
    """torchdata.stateful_dataloader: its batches go through torch's class, its starts do not."""
    patch_iter(module.StatefulDataLoader)


def patch_nodes(module: Any) -> None:
    """torchdata.nodes.loader: a loader without DataLoader."""
    patch_next(module.LoaderIterator, "next")
    patch_iter(module.Loader)


def patch_next(owner: Any, name: str) -> None:
    """Wrap the method that gives the next batch."""
    original = getattr(owner, name)
    if not is_marked(original):
        setattr(owner, name, mark(wrap_next(original, adopt)))


def patch_iter(owner: Any) -> None:
    """Wrap the method that starts an epoch."""
    if not is_marked(owner.__iter__):
        owner.__iter__ = wrap_iter(owner.__iter__)


def wrap_iter(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`original`, timed as the start of an epoch; its iterator gets a new clock."""

    @functools.wraps(original)
    def timed_iter(self: Any) -> Any:
        clock = _new_clock(self)
        iterator = start_epoch(clock, lambda: original(self))
        _attach(iterator, clock)
        return iterator

    return mark(timed_iter)  # type: ignore[no-any-return]


def describe(loader: Any) -> dict[str, Any]:
    """What is worth knowing of a DataLoader (or of an iterator of one) in the report."""
    num_workers = _either(loader, "num_workers")
    batch_size = attribute(loader, "batch_size")
    if batch_size is None:
        batch_size = attribute(getattr(loader, "batch_sampler", None), "batch_size")
    return {
        "num_workers": num_workers,
        "batch_size": batch_size,
        "prefetch_factor": _either(loader, "prefetch_factor"),
        "persistent": _either(loader, "persistent_workers"),
        "pin_memory": _either(loader, "pin_memory"),
        "context": _start_method(loader) if num_workers else None,
        "dataset": type_name(getattr(loader, "dataset", getattr(loader, "_dataset", None))),
    }


def _new_clock(loader: Any) -> EpochClock | None:
    if SESSION.off or in_loader_worker():
        return None
    try:
        return EpochClock(LOADERS.find(describe, loader))
    except Exception as error:
        SESSION.turn_off(error)
        return None


def adopt(iterator: Any) -> EpochClock | None:
    """A clock for an iterator that no wrapped __iter__ made."""
    clock = _new_clock(iterator)
    _attach(iterator, clock)
    return clock


def _attach(iterator: Any, clock: EpochClock | None) -> None:
    try:
        iterator._slurm_io = clock
    except Exception:  # an iterator of a subclass's own that takes no attributes: not timed
        return


def _either(loader: Any, name: str) -> Any:
    found = attribute(loader, name)
    return attribute(loader, "_" + name) if found is None else found


def _start_method(loader: Any) -> str | None:
    try:
        context = getattr(loader, "multiprocessing_context", None)
        if context is None:
            import multiprocessing

            context = multiprocessing.get_context()
        return str(context.get_start_method())
    except Exception:
        return None
