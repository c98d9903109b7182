"""Xid events: the errors the driver reports of a GPU, taken from an event set without waiting."""

from __future__ import annotations

from ctypes import byref, c_uint, c_ulonglong, c_void_p

from slurm_io.gpus.model import Xid
from slurm_io.gpus.nvml.errors import TIMEOUT, NvmlError
from slurm_io.gpus.nvml.library import Library
from slurm_io.gpus.nvml.structs import EventData

_XID_EVENT = 0x8
_NO_INSTANCE = 0xFFFFFFFF
_MOST_AT_ONCE = 64
_NO_WAIT = c_uint(0)


class XidEvents:
    """Events of the watched GPUs, from now on. `trouble` says why there are none (any more)."""

    def __init__(self, library: Library) -> None:
        self._wait = library.function("nvmlEventSetWait_v2", "nvmlEventSetWait")
        self._register = library.function("nvmlDeviceRegisterEvents")
        self._set = c_void_p()
        self._data = EventData()
        self._uuids: dict[int | None, str | None] = {}
        self.trouble = ""
        try:
            library.function("nvmlEventSetCreate")(byref(self._set))
        except NvmlError as error:
            self.trouble = str(error)

    def watch(self, device: c_void_p, uuid: str | None) -> str:
        """Take the GPU's events too; "" or why not."""
        if self.trouble:
            return self.trouble
        try:
            self._register(device, c_ulonglong(_XID_EVENT), self._set)
        except NvmlError as error:
            return str(error)
        self._uuids[device.value] = uuid
        return ""

    def take(self) -> list[Xid]:
        """What has come since the last time; at most 64, the rest comes the next time."""
        found: list[Xid] = []
        if self.trouble or not self._uuids:
            return found
        data = self._data
        try:
            while len(found) < _MOST_AT_ONCE:
                data.gpu_instance = _NO_INSTANCE
                self._wait(self._set, byref(data), _NO_WAIT)
                found += self._xid()
        except NvmlError as error:
            # A lost GPU makes the whole set answer so for ever.
            self.trouble = "" if error.code == TIMEOUT else str(error)
        return found

    def _xid(self) -> list[Xid]:
        data = self._data
        if data.event_type != _XID_EVENT:
            return []
        instance = None if data.gpu_instance == _NO_INSTANCE else data.gpu_instance
        return [Xid(self._uuids.get(data.device), data.event_data, instance)]
