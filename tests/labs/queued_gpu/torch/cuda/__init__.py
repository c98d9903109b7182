"""torch.cuda: the one device of this process, as a module."""

import sys

from torch import _device

_cuda = _device.Cuda()
_cuda.__path__ = __path__
_cuda.__spec__ = __spec__
_cuda.__name__ = __name__
sys.modules[__name__] = _cuda

import torch.cuda.graphs  # noqa: E402, F401 - as torch does
