"""GPM: how busy the parts of a GPU were between two samples. Hopper and later.

Several clients may use it side by side: unlike DCGM's profiling before Hopper it takes no lock.
Samples less than 100 ms apart mean nothing.
"""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p

from slurm_io.gpus.nvml.errors import NOT_SUPPORTED, NvmlError
from slurm_io.gpus.nvml.library import Library
from slurm_io.gpus.nvml.structs import (
    GPM_METRICS_VERSION,
    GPM_SUPPORT_VERSION,
    GpmMetricsGet,
    GpmSupport,
)

LEAST_INTERVAL_NS = 100_000_000
_METRICS = (
    (2, "sm_active_share", 100.0),
    (5, "tensor_active_share", 100.0),
    (10, "dram_active_share", 100.0),
    (21, "pcie_rx_mib_s", 1.0),
)
COLUMNS = tuple(name for _number, name, _unit in _METRICS)


class GpmFunctions:
    """The functions, and one metrics structure for all devices (13 KiB)."""

    def __init__(self, library: Library) -> None:
        self.support = library.function("nvmlGpmQueryDeviceSupport")
        self.alloc = library.function("nvmlGpmSampleAlloc")
        self.sample = library.function("nvmlGpmSampleGet")
        self.mig_sample = library.function("nvmlGpmMigSampleGet")
        self.metrics = library.function("nvmlGpmMetricsGet")
        self.request = GpmMetricsGet(version=GPM_METRICS_VERSION, count=len(_METRICS))
        for place, (number, _name, _unit) in enumerate(_METRICS):
            self.request.metrics[place].metric_id = number


class Gpm:
    """Samples of one GPU, or of one GPU instance of it. Raises NvmlError when there is no GPM."""

    def __init__(
        self, functions: GpmFunctions, device: c_void_p, instance: int | None = None
    ) -> None:
        self._functions = functions
        self._device = device
        self._instance = None if instance is None else c_uint(instance)
        support = GpmSupport(version=GPM_SUPPORT_VERSION)
        functions.support(device, byref(support))
        if not support.is_supported:
            raise NvmlError(NOT_SUPPORTED, "nvmlGpmQueryDeviceSupport")
        self._last, self._next = c_void_p(), c_void_p()
        functions.alloc(byref(self._last))
        functions.alloc(byref(self._next))
        self._last_ns: int | None = None

    def read(self, mono_ns: int) -> dict[str, float]:
        """Shares and MiB/s since the last reading; empty at the first, and when the last one is
        too young. A metric the GPU does not have is left out."""
        if self._last_ns is not None and mono_ns - self._last_ns < LEAST_INTERVAL_NS:
            return {}
        self._take_sample()
        is_first, self._last_ns = self._last_ns is None, mono_ns
        if is_first:
            self._last, self._next = self._next, self._last
            return {}
        request = self._functions.request
        request.sample1, request.sample2 = self._last, self._next
        self._last, self._next = self._next, self._last
        self._functions.metrics(byref(request))
        return {
            name: metric.value / unit
            for (_number, name, unit), metric in zip(_METRICS, request.metrics, strict=False)
            if metric.code == 0
        }

    def _take_sample(self) -> None:
        if self._instance is None:
            self._functions.sample(self._device, self._next)
        else:
            self._functions.mig_sample(self._device, self._instance, self._next)
