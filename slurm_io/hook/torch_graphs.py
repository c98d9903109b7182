"""Counts the CUDA graphs that are being captured, on whatever thread.

torch tells it of the current stream only, and a question about an event spoils a capture that
another thread makes (in the default mode, and with some ROCm versions in every mode).
"""

from __future__ import annotations

import functools

from .gpu_idle import GPU, cuda_module
from .span import is_marked, mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def patch(module: Any) -> None:
    """Wrap the graph of a freshly imported torch.cuda.graphs; a torch without GPUs has none."""
    graph = module.CUDAGraph
    if cuda_module() is None or is_marked(graph.capture_begin):
        return
    graph.capture_begin = mark(_counted_begin(graph.capture_begin))
    graph.capture_end = mark(_counted_end(graph.capture_end))


def _counted_begin(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        GPU.captures += 1
        try:
            return original(*args, **kwargs)
        except BaseException:
            GPU.captures = max(0, GPU.captures - 1)
            raise

    return capture_begin


def _counted_end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def capture_end(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            GPU.captures = max(0, GPU.captures - 1)

    return capture_end
