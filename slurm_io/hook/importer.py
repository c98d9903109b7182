"""Runs our patches right after the modules they patch are imported; imports none of them itself.

A finder at the head of sys.meta_path knows a handful of names. For these it asks the finders
behind it and lends the spec a loader that executes the module as before and then calls the patch.
The module ends up with its own loader: nobody sees ours afterwards.
"""

from __future__ import annotations

import importlib
import sys
from _thread import get_ident

from .session import debug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATCHES = {  # module to wait for: (module of ours, function)
    "torch.utils.data.dataloader": ("torch_loader", "patch"),
    "torch.utils.data._utils.signal_handling": ("torch_workers", "patch"),
    "torch.optim.optimizer": ("torch_optim", "patch"),
    "torch.cuda.graphs": ("torch_graphs", "patch"),
    "torch.serialization": ("torch_save", "patch_serialization"),
    "torch.distributed.checkpoint.state_dict_saver": ("torch_save", "patch_dcp_saver"),
    "torch.distributed.checkpoint.state_dict_loader": ("torch_save", "patch_dcp_loader"),
    "torchdata.stateful_dataloader.stateful_dataloader": ("torch_loader", "patch_stateful"),
    "torchdata.nodes.loader": ("torch_loader", "patch_nodes"),
    "safetensors.torch": ("torch_save", "patch_safetensors"),
    "lightning.fabric.plugins.io.torch_io": ("torch_save", "patch_lightning"),
    "lightning_fabric.plugins.io.torch_io": ("torch_save", "patch_lightning"),
    "grain._src.python.dataset.dataset": ("pipelines", "patch_grain"),
    "webdataset.pipeline": ("pipelines", "patch_webdataset"),
}


class PatchFinder:
    """The finder. One a process."""

    def __init__(self) -> None:
        self._asking: set[tuple[int, str]] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The others' spec with our loader around theirs; None for every name that is not ours."""
        if name not in PATCHES:
            return None
        asking = (get_ident(), name)
        if asking in self._asking:  # a finder behind us asks for the same name from the top
            return None
        self._asking.add(asking)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._asking.discard(asking)
        loader = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module"):
            spec.loader = PatchingLoader(loader)
        return spec

    def _ask_others(self, name: str, path: Any, target: Any) -> Any:
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find_spec = getattr(finder, "find_spec", None)
            spec = None if find_spec is None else find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class PatchingLoader:
    """Stands in for a module's loader until the module is executed."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # asked for while a copy of us is still empty
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """As the real loader does."""
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: Any) -> None:
        """Give the module its own loader back, execute it, patch it."""
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        apply_patch(module)


def apply_patch(module: Any) -> None:
    """Call the patch that belongs to `module`. Never raises."""
    home, function = PATCHES[module.__name__]
    try:
        patches = importlib.import_module("." + home, __package__)
        getattr(patches, function)(module)
    except Exception as error:  # another version of the library: that part is not timed
        debug("%s not patched: %r" % (module.__name__, error))
    else:
        debug("%s patched" % module.__name__)


def install() -> None:
    """Wait for the modules to come, and patch those that are there."""
    if any(isinstance(finder, PatchFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, PatchFinder())
    for name in PATCHES:
        module = sys.modules.get(name)
        if module is not None:
            apply_patch(module)
