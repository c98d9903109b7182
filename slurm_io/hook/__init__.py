"""The in-process hook: times batches, optimizer steps, checkpoints and loads of a training process.

In an attached job the hook is there before the program starts, as `slurm_io_hook`, from the folder
`attach`. This package is another door to that same one: whichever name a program imports, there is
one state and one ring. Off unless SLURM_IO_RING_DIR is set.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from slurm_io.hook.api import checkpoint, enabled, event, watch

__all__ = ["checkpoint", "enabled", "event", "watch"]

_CANONICAL = "slurm_io_hook"


def _canonical() -> ModuleType:
    """The hook as the attach folder loads it, or else loaded from our own copy of that folder."""
    if _CANONICAL not in sys.modules:
        from importlib.util import module_from_spec, spec_from_file_location

        home = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attach", _CANONICAL)
        spec = spec_from_file_location(_CANONICAL, os.path.join(home, "__init__.py"))
        if spec is None or spec.loader is None:
            raise ImportError("%s is not a package: install slurm_io again" % home)
        module = module_from_spec(spec)
        sys.modules[_CANONICAL] = module
        spec.loader.exec_module(module)
    return sys.modules[_CANONICAL]


def _share(canonical: ModuleType) -> None:
    """Give this package the canonical one's functions, and its modules under our name too."""
    for name in __all__:
        globals()[name] = getattr(canonical, name)
    for name, module in list(sys.modules.items()):
        if name.startswith(_CANONICAL + "."):
            sys.modules[__name__ + name[len(_CANONICAL) :]] = module


_share(_canonical())
