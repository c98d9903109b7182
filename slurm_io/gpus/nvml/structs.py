"""The structures NVML fills in (nvml.h). Versioned ones carry their size and version in front."""

from __future__ import annotations

from ctypes import Structure, c_char, c_double, c_int, c_uint, c_ulonglong, c_void_p, sizeof

GPM_METRICS_VERSION = 1
GPM_SUPPORT_VERSION = 1
_GPM_ROOM = 333  # nvml.h of R580 and later; earlier ones had less, and only what is asked is read
_VERSION_SHIFT = 24


class Utilization(Structure):
    """Per cent."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class Memory(Structure):
    """Bytes; `used` includes what the driver reserves."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class MemoryV2(Structure):
    """Bytes; `used` and `reserved` apart. From R510 on."""

    _fields_ = (
        ("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong),
        ("free", c_ulonglong), ("used", c_ulonglong),
    )  # fmt: skip


class PciInfo(Structure):
    """Where a GPU sits."""

    _fields_ = (
        ("bus_id_legacy", c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint),
        ("pci_device_id", c_uint), ("pci_subsystem_id", c_uint), ("bus_id", c_char * 32),
    )  # fmt: skip


class Temperature(Structure):
    """°C. From R570 on, in place of nvmlDeviceGetTemperature."""

    _fields_ = (("version", c_uint), ("sensor", c_int), ("temperature", c_int))


class ProcessInfo(Structure):
    """A process with a compute context (second form, R450 on); no instance is 0xFFFFFFFF."""

    _fields_ = (
        ("pid", c_uint), ("used_bytes", c_ulonglong), ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )  # fmt: skip


class EventData(Structure):
    """One event; the last two are left alone by drivers before R450."""

    _fields_ = (
        ("device", c_void_p), ("event_type", c_ulonglong), ("event_data", c_ulonglong),
        ("gpu_instance", c_uint), ("compute_instance", c_uint),
    )  # fmt: skip


class GpmMetric(Structure):
    """One metric to be worked out of two samples."""

    _fields_ = (
        ("metric_id", c_uint), ("code", c_int), ("value", c_double), ("short_name", c_void_p),
        ("long_name", c_void_p), ("unit", c_void_p),
    )  # fmt: skip


class GpmMetricsGet(Structure):
    """Two samples and the metrics wanted of them."""

    _fields_ = (
        ("version", c_uint), ("count", c_uint), ("sample1", c_void_p), ("sample2", c_void_p),
        ("metrics", GpmMetric * _GPM_ROOM),
    )  # fmt: skip


class GpmSupport(Structure):
    """Whether a device has GPM."""

    _fields_ = (("version", c_uint), ("is_supported", c_uint))


def versioned(kind: type[Structure], version: int) -> int:
    """NVML_STRUCT_VERSION."""
    return sizeof(kind) | version << _VERSION_SHIFT
