"""A torch with loader, optimizer and a GPU, as far as the hook looks."""

import sys
import types

__version__ = "2.0.0"

if __name__ == "torch":  # not when a test takes the device alone, by its full name
    _C = types.ModuleType("torch._C")
    _C._cuda_getDeviceCount = lambda: 1  # type: ignore[attr-defined]  # built for CUDA
    sys.modules["torch._C"] = _C
