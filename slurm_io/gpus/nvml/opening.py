"""Finds the job's GPUs among those of the node and opens them, and no others where that can be."""

from __future__ import annotations

from ctypes import byref, c_char_p, c_uint, c_void_p
from pathlib import Path

from slurm_io.gpus.choice import choose_for, is_meant, names_instances
from slurm_io.gpus.model import Identity, Mark, Wish
from slurm_io.gpus.nvml.device import Functions, WholeGpu
from slurm_io.gpus.nvml.errors import NO_PERMISSION, NvmlError
from slurm_io.gpus.nvml.library import Library
from slurm_io.gpus.nvml.seen import MOST_GPUS, seen_by_driver
from slurm_io.gpus.nvml.structs import PciInfo


class Opening:
    """:meth:`open` once; then `lost` (uuid or address -> reason) and `doubt` say what was not as it
    should be. NvmlError: the driver is gone."""

    def __init__(self, library: Library, functions: Functions, mark: Mark) -> None:
        self._library = library
        self._functions = functions
        self._mark = mark
        self._without: frozenset[int] = frozenset()
        self.lost: dict[str, str] = {}
        self.doubt = ""

    def open(self, wish: Wish, proc_root: Path, without: frozenset[int]) -> list[WholeGpu]:
        """The GPUs wished for, those numbered in `without` left alone."""
        self._without = without
        seen = self._look(wish, proc_root)
        chosen = choose_for(wish, seen)
        if names_instances(chosen.instances):
            return self._holders(seen, chosen.places, chosen.instances)
        opened = self._handles(seen, chosen.places)
        if chosen.by_number and any(self._holds(gpu, ()) for gpu in opened):
            self.doubt = "on a node with MIG the numbers may count slices: all are recorded"
            return self._handles(seen, tuple(range(len(seen))))
        self.doubt = chosen.doubt
        return opened

    def _look(self, wish: Wish, proc_root: Path) -> list[Identity]:
        seen = seen_by_driver(proc_root)
        by_uuid = any(not word.isdecimal() for word in wish.words or ())
        if not seen or (by_uuid and any(each.uuid is None for each in seen)):
            return self._seen_by_nvml()
        return seen

    def _holders(
        self, seen: list[Identity], places: tuple[int, ...], instances: tuple[str, ...]
    ) -> list[WholeGpu]:
        """Only the driver knows which GPU an instance is part of, so all must be asked."""
        wanted = {seen[place].bus for place in places}
        return [
            gpu
            for gpu in self._handles(seen, tuple(range(len(seen))))
            if gpu.identity.bus in wanted or self._holds(gpu, instances)
        ]

    def _holds(self, gpu: WholeGpu, instances: tuple[str, ...]) -> bool:
        """Whether the GPU is cut into instances, one of these (any) among them."""
        try:
            return any(is_meant(one.identity, instances) for one in gpu.instances())
        except NvmlError as error:
            self._note(error, gpu.identity.uuid or gpu.identity.bus)
            return False

    def _handles(self, seen: list[Identity], places: tuple[int, ...]) -> list[WholeGpu]:
        by_bus = self._library.function("nvmlDeviceGetHandleByPciBusId_v2")
        found = []
        for place in places:
            each, device = seen[place], c_void_p()
            if each.gpu in self._without:
                continue
            self._mark.set(each.gpu)
            try:
                by_bus(c_char_p(each.bus.encode()), byref(device))
                found.append(WholeGpu(self._functions, device, each.gpu, each.bus))
            except NvmlError as error:
                self._note(error, each.uuid or each.bus)
        self._mark.set(None)
        return found

    def _seen_by_nvml(self) -> list[Identity]:
        """Where /proc does not tell: every GPU is touched."""
        count = c_uint()
        self._library.function("nvmlDeviceGetCount_v2")(byref(count))
        found = []
        for gpu in range(min(count.value, MOST_GPUS)):
            if gpu in self._without:
                # It keeps its place: leaving one out must not change what numbers mean.
                found.append(Identity(gpu, None, None, "", "", "nvidia"))
                continue
            self._mark.set(gpu)
            try:
                found.append(self._identity_at(gpu))
            except NvmlError as error:
                self._note(error, str(gpu))
        self._mark.set(None)
        return found

    def _identity_at(self, gpu: int) -> Identity:
        device, info = c_void_p(), PciInfo()
        self._library.function("nvmlDeviceGetHandleByIndex_v2")(c_uint(gpu), byref(device))
        self._library.function("nvmlDeviceGetPciInfo_v3")(device, byref(info))
        bus = info.bus_id.decode("ascii", "replace")
        return WholeGpu(self._functions, device, gpu, bus).identity

    def _note(self, error: NvmlError, name: str) -> None:
        if error.session_is_lost:
            raise error
        if error.code != NO_PERMISSION:  # a control group's other GPUs are nobody's loss
            self.lost[name] = str(error)
