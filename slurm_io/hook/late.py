"""Into a process that runs already, and out of it again: what `slurm-io attach --load-hook` calls.

`join` starts the hook on a ring folder without touching the environment. `leave` switches it off,
gives the ring's memory back and puts the original functions back where ours are still the outermost
ones; a wrapper that another tool has wrapped again stays, asleep. Both run between two bytecodes of
the main thread, answer in one word and never raise.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from types import FunctionType

from .session import SESSION, SWITCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Iterator

_PACKAGES = ("torch", "torch.distributed.checkpoint")  # hold names of what was patched elsewhere
_HERE = os.path.dirname(os.path.abspath(__file__))


def join(folder: str) -> str:
    """Record into `folder`: "loaded", "off" (the user's switch), "there" (another recording)."""
    if os.environ.get(SWITCH, "") == "0":
        return "off"
    if not SESSION.off:
        return "there"
    try:
        from .gpu_idle import GPU
        from .start import start

        SESSION.folder = folder
        SESSION.off = False
        GPU.come_back()
        start()
    except Exception as error:
        SESSION.turn_off(error)
    return "failed" if SESSION.off else "loaded"


def leave() -> str:
    """Stop recording and take back what can be taken back: "left", or "failed"."""
    SESSION.turn_off("told to leave")
    SESSION.folder = ""
    SESSION.at_ring.clear()
    atexit.unregister(SESSION.close)
    steps = (
        _stop_waiting_for_modules, _stop_timing_collections, _unwrap, _forget_step_hooks,
        _free_the_ring, _free_the_events,
    )  # fmt: skip
    failed = 0
    for step in steps:
        try:
            step()
        except Exception:  # what is off is harmless; the others still go
            failed += 1
    return "failed" if failed else "left"


def _stop_waiting_for_modules() -> None:
    from .importer import PatchFinder

    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PatchFinder)]


def _stop_timing_collections() -> None:
    from .gc_pauses import PauseTimer

    gc.callbacks[:] = [each for each in gc.callbacks if not isinstance(each, PauseTimer)]


def _free_the_ring() -> None:
    """The last holders of the mapping are the loaders that described themselves in it."""
    loaders = sys.modules.get(__package__ + ".loaders") if __package__ else None
    if loaders is not None:
        for _owner, loader in list(loaders.LOADERS._known.values()):
            loader._told_ring = None


def _free_the_events() -> None:
    gpu_idle = sys.modules.get(__package__ + ".gpu_idle") if __package__ else None
    if gpu_idle is not None:
        gpu_idle.GPU.leave()


def _unwrap() -> None:
    for owner in _owners():
        for name, value in list(vars(owner).items()):
            if _is_ours(value):
                setattr(owner, name, value.__wrapped__)


def _owners() -> Iterator[Any]:
    """Modules and classes in which a name may stand for a wrapper of ours."""
    from .importer import PATCHES

    for name in (*PATCHES, *_PACKAGES):
        module = sys.modules.get(name)
        if module is not None:
            yield module
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield value


def _is_ours(value: object) -> bool:
    """By where its code lies: functools.wraps copies every mark to a wrapper around ours."""
    if not isinstance(value, FunctionType):  # not asked for attributes: a module may hold anything
        return False
    is_here = os.path.dirname(os.path.abspath(value.__code__.co_filename)) == _HERE
    return is_here and hasattr(value, "__wrapped__")


def _forget_step_hooks() -> None:
    """torch's global post-step hooks (torch 2)."""
    optimizer: ModuleType | None = sys.modules.get("torch.optim.optimizer")
    hooks: Any = getattr(optimizer, "_global_optimizer_post_hooks", {})
    for key, hook in list(hooks.items()):
        if getattr(hook, "_slurm_io_timed", False) is True:
            del hooks[key]
