"""Times pipelines that hand batches to the training loop without torch's DataLoader around them.

Grain (JAX): whatever a user iterates over, a DataLoader of Grain's included, ends in
`_OutputIterDataset.__iter__`; what it returns belongs to one of two dozen classes, and the
`__next__` of such a class is wrapped when it is first met. WebDataset: `DataPipeline.__iter__`; it
returns a generator, which takes no attribute, so it is given out in a wrapper. A WebLoader is such
a pipeline around a DataLoader: the outermost counts.

Only what the main thread starts, outside of any other timed call, is a loader: pipelines hold
pipelines, run in threads that fetch ahead, and in worker processes, a user's own among them. So a
process that another Python process made counts for nothing here; a DataLoader in it still does.
"""

from __future__ import annotations

import functools
from _thread import get_ident

from . import torch_loader
from .clock import EpochClock, wrap_next
from .epoch_start import start_epoch
from .loaders import LOADERS, attribute, type_name
from .session import SESSION, in_loader_worker
from .span import is_marked, mark
from .watching import WatchedIterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_DEEPEST = 50  # a pipeline has a dozen steps


def patch_grain(module: Any) -> None:
    """grain._src.python.dataset.dataset."""
    owner = module._OutputIterDataset
    _replace_iter(owner, lambda self: _new_clock(self._parent, describe_grain), _attach)


def patch_webdataset(module: Any) -> None:
    """webdataset.pipeline."""
    owner = module.DataPipeline
    _replace_iter(owner, lambda self: _new_clock(self, describe_webdataset), WatchedIterator)


def _replace_iter(
    owner: Any, new_clock: Callable[[Any], Any], attach: Callable[[Any, EpochClock], Any]
) -> None:
    original = owner.__iter__
    if is_marked(original):
        return

    @functools.wraps(original)
    def timed_iter(self: Any, *args: Any, **kwargs: Any) -> Any:
        clock = new_clock(self) if _is_a_loop() else None
        iterator = start_epoch(clock, lambda: original(self, *args, **kwargs))
        return iterator if clock is None else attach(iterator, clock)

    owner.__iter__ = mark(timed_iter)


def _is_a_loop() -> bool:
    """Is it the training loop that asks, as far as a thread can tell?"""
    thread = get_ident()
    is_main = thread == SESSION.main_thread and thread not in SESSION.busy
    return is_main and not SESSION.off and not in_loader_worker() and not SESSION.is_child()


def _new_clock(loader: Any, describe: Callable[[Any], dict[str, Any]]) -> EpochClock | None:
    try:
        return EpochClock(LOADERS.find(describe, loader))
    except Exception as error:
        SESSION.turn_off(error)
        return None


def _attach(iterator: Any, clock: EpochClock) -> Any:
    """`iterator` itself, timed from now on; as it was where it cannot be."""
    try:
        owner = type(iterator)
        if not is_marked(owner.__next__):
            owner.__next__ = mark(wrap_next(owner.__next__, _adopt))
        iterator._slurm_io = clock
    except Exception:  # a class that takes no attributes: not timed
        return iterator
    return iterator


def _adopt(iterator: Any) -> None:
    """An iterator inside a pipeline, of a class that also ends pipelines: never timed."""
    try:
        iterator._slurm_io = None
    except Exception:
        return


def describe_grain(dataset: Any) -> dict[str, Any]:
    """Of a Grain pipeline: worker processes of whatever step has some, and the first batching."""
    return {
        "num_workers": _of_steps(dataset, _grain_workers),
        "batch_size": _of_steps(dataset, lambda step: attribute(step, "_batch_size")),
        "dataset": type_name(_source(dataset)),
    }


def describe_webdataset(pipeline: Any) -> dict[str, Any]:
    """Of a WebLoader what its DataLoader is like, of any other pipeline its class."""
    first = pipeline.pipeline[0]
    if hasattr(first, "num_workers"):
        return torch_loader.describe(first)
    return {"num_workers": 0, "dataset": type_name(pipeline)}


def _grain_workers(step: Any) -> int | None:
    shards = getattr(step, "_datasets", None)  # of an interleaving: `mp_prefetch` makes one
    if isinstance(shards, list) and shards and _has_a_process(shards[0]):
        return len(shards)
    return 1 if _has_a_process(step) else None


def _has_a_process(step: Any) -> bool:
    return type(step).__name__ == "ProcessPrefetchIterDataset"


def _of_steps(dataset: Any, ask: Callable[[Any], Any]) -> Any:
    """The first answer from the end of a pipeline on."""
    for step in _steps(dataset):
        found = ask(step)
        if found is not None:
            return found
    return None


def _source(dataset: Any) -> Any:
    steps = _steps(dataset)
    return getattr(steps[-1], "_source", steps[-1])


def _steps(dataset: Any) -> list[Any]:
    """From the end of a pipeline to its beginning, along the first parents."""
    found = [dataset]
    while len(found) < _DEEPEST:
        shards = getattr(found[-1], "_datasets", None)
        parents = getattr(found[-1], "_parents", None) or shards
        if not isinstance(parents, (list, tuple)) or not parents:
            break
        found.append(parents[0])
    return found
