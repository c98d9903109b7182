"""The NVIDIA driver opened for some GPUs, and rounds of questions to all of them.

As long as it is open the kernel module cannot be unloaded and no GPU of it be reset; so it is
opened in a helper that ends with the job, and only GPUs that are the job's are touched.
"""

from __future__ import annotations

from ctypes import c_uint, create_string_buffer
from pathlib import Path
from typing import Any

from slurm_io.errors import HostError
from slurm_io.gpus.choice import is_meant
from slurm_io.gpus.model import Identity, Mark, NoneOfTheJobs, Value, Wish, Xid, row_tail
from slurm_io.gpus.nvml.device import Device, Functions, MigInstance, WholeGpu
from slurm_io.gpus.nvml.errors import NvmlError
from slurm_io.gpus.nvml.library import Call, Library
from slurm_io.gpus.nvml.opening import Opening
from slurm_io.gpus.nvml.xids import XidEvents

SELDOM = 10  # rounds between two looks at everything
_VERSION_BYTES = 80


class NvmlDriver:
    """Opened in the constructor, which raises HostError when there is nothing to read and why.

    `without` are numbers of GPUs that hung a helper before.
    """

    vendor = "nvidia"

    def __init__(
        self, path: str, wish: Wish, proc_root: Path, mark: Mark, without: frozenset[int]
    ) -> None:
        self._mark = mark
        self._library = library = Library(path, mark)
        library.function("nvmlInit_v2")()
        functions = Functions(library)
        opening = Opening(library, functions, mark)
        self._names = tuple(word for word in wish.words or () if word.startswith("MIG-"))
        self._gpus = opening.open(wish, proc_root, without)
        self.lost, self.doubt = opening.lost, opening.doubt
        if not self._gpus and self.lost:
            raise HostError(
                f"none of the job's GPUs can be opened: {'; '.join(self.lost.values())}"
            )
        if not self._gpus:
            raise NoneOfTheJobs("none of the job's GPUs is an NVIDIA GPU that can be read")
        self._instances: dict[int, list[MigInstance]] = {}
        self._events = XidEvents(library)
        self._unwatched = {
            each.identity.gpu: why
            for each in self._gpus
            if (why := self._events.watch(each.device, each.identity.uuid))
        }
        self._round = 0

    def identities(self) -> list[Identity]:
        """The GPUs read."""
        return [gpu.identity for gpu in self._gpus]

    def read(self, mono_ns: int) -> tuple[list[list[Value]], list[Xid]]:
        """Rows of table gpu behind their clocks, and Xids since the last time.

        A GPU that is lost goes into `lost` and is not asked again. NvmlError: the driver is gone.
        """
        rows: list[list[Value]] = []
        self._mark.set(None)
        xids = self._events.take()
        for place, gpu in enumerate(list(self._gpus)):
            self._mark.set(gpu.seen_as)
            # Spread over the rounds: everything of all GPUs at once would be one long round.
            everything = self._round < 1 or self._round % SELDOM == place % SELDOM
            try:
                rows += self._read_gpu(gpu, mono_ns, everything, xids)
            except NvmlError as error:
                if not error.gpu_is_lost:
                    raise
                self._lose(gpu, error)
        self._mark.set(None)
        self._round += 1
        return rows, xids

    def facts(self) -> dict[str, Any]:
        """What changes seldom: processes, refusals, losses, instances."""
        devices = self._devices()
        return {
            "lost": dict(self.lost),
            "unknown": self._refusals(devices),
            "processes": {
                each.identity.uuid or str(each.identity.gpu): each.processes
                for each in devices
                if each.processes is not None
            },
            "instances": [
                {"gpu": one.gpu, "mig": one.mig, "uuid": one.uuid}
                for instances in self._instances.values()
                for one in (each.identity for each in instances)
            ],
        }

    def versions(self) -> dict[str, str | None]:
        """Of driver and library."""
        return {
            "driver": self._text(self._library.function("nvmlSystemGetDriverVersion")),
            "nvml": self._text(self._library.function("nvmlSystemGetNVMLVersion")),
            "library": self._library.path,
        }

    def _read_gpu(
        self, gpu: WholeGpu, mono_ns: int, everything: bool, xids: list[Xid]
    ) -> list[list[Value]]:
        if everything:
            self._look_at_instances(gpu)
        rows = []
        for device in (gpu, *self._instances.get(gpu.identity.gpu, ())):
            values = device.read(mono_ns, everything)
            values["xid"] = _last_of(xids, device)
            rows.append(row_tail(device.identity, values))
        return rows

    def _look_at_instances(self, gpu: WholeGpu) -> None:
        known = self._instances.get(gpu.identity.gpu, [])
        found = [one for one in gpu.instances() if is_meant(one.identity, self._names)]
        # One that is still there keeps its last sample.
        self._instances[gpu.identity.gpu] = [
            next((old for old in known if old.is_same(one)), one) for one in found
        ]

    def _lose(self, gpu: WholeGpu, error: NvmlError) -> None:
        self.lost[gpu.identity.uuid or str(gpu.identity.gpu)] = str(error)
        self._gpus.remove(gpu)
        self._instances.pop(gpu.identity.gpu, None)

    def _devices(self) -> list[Device]:
        found: list[Device] = list(self._gpus)
        return found + [one for some in self._instances.values() for one in some]

    def _refusals(self, devices: list[Device]) -> dict[str, str]:
        """Column -> reason, with the GPUs it holds for where others have values."""
        found: dict[str, dict[str, set[int]]] = {}
        for device in devices:
            if isinstance(device, MigInstance):
                continue
            for column, reason in device.refused().items():
                found.setdefault(column, {}).setdefault(reason, set()).add(device.identity.gpu)
        if self._events.trouble:
            found["xid"] = {self._events.trouble: {gpu.identity.gpu for gpu in self._gpus}}
        for gpu, reason in self._unwatched.items():
            found.setdefault("xid", {}).setdefault(reason, set()).add(gpu)
        return {
            column: "; ".join(
                _with_gpus(reason, gpus, len(self._gpus)) for reason, gpus in of.items()
            )
            for column, of in found.items()
        }

    def _text(self, function: Call) -> str | None:
        buffer = create_string_buffer(_VERSION_BYTES)
        try:
            function(buffer, c_uint(_VERSION_BYTES))
        except NvmlError:
            return None
        return buffer.value.decode("ascii", "replace")


def _last_of(xids: list[Xid], device: Device) -> int | None:
    """The last Xid of this GPU or instance; one of an instance counts for the whole GPU as well."""
    identity = device.identity
    if isinstance(device, MigInstance):
        mine = [each.xid for each in xids if each.instance == device.instance is not None
                and each.uuid == identity.parent_uuid]  # fmt: skip
    else:
        mine = [each.xid for each in xids if each.uuid == identity.uuid]
    return mine[-1] if mine else None


def _with_gpus(reason: str, gpus: set[int], number: int) -> str:
    if len(gpus) == number:
        return reason
    return f"GPU {', '.join(map(str, sorted(gpus)))}: {reason}"
