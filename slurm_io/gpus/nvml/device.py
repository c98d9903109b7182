"""One NVIDIA GPU, and one MIG instance of it: questions put together, answers as columns."""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p, create_string_buffer

from slurm_io.gpus.model import Identity
from slurm_io.gpus.nvml.errors import NOT_FOUND, NvmlError, raise_if_gone
from slurm_io.gpus.nvml.gpm import COLUMNS as GPM_COLUMNS
from slurm_io.gpus.nvml.gpm import Gpm, GpmFunctions
from slurm_io.gpus.nvml.library import Call, Library
from slurm_io.gpus.nvml.reading import DeviceCalls, DeviceFunctions, Question, Questions, Values

_UUID_BYTES = 96
_NAME_BYTES = 96
_MOST_INSTANCES = 64
_MIG_ENABLED = 1


class Device:
    """What both have: questions, the answers, and the processes with a compute context (None while
    the driver does not tell)."""

    identity: Identity
    _questions: Questions

    def __init__(self, functions: Functions, device: c_void_p) -> None:
        self.device = device
        self.processes: list[int] | None = None
        self._functions = functions
        self._calls = DeviceCalls(functions.device, device)
        self._gpm: Gpm | None = None
        self._mono_ns = 0

    def read(self, mono_ns: int, everything: bool) -> Values:
        """Column values; `everything` includes what is asked only now and then. NvmlError when GPU
        or driver is gone."""
        self._mono_ns = mono_ns
        return self._questions.ask(everything)

    def refused(self) -> dict[str, str]:
        """Column -> why it has no values."""
        return self._questions.refused()

    def _open_gpm(self) -> Gpm:
        return Gpm(self._functions.gpm, self.device)

    def _read_gpm(self) -> Values:
        if self._gpm is None:
            self._gpm = self._open_gpm()
        return dict(self._gpm.read(self._mono_ns))

    def _read_processes(self) -> Values:
        self.processes = None
        self.processes = self._calls.processes()
        return {}


class Functions:
    """Everything devices need of the library."""

    def __init__(self, library: Library) -> None:
        find = library.function
        self.device = DeviceFunctions(library)
        self.gpm = GpmFunctions(library)
        self.index = find("nvmlDeviceGetIndex")
        self.uuid = find("nvmlDeviceGetUUID")
        self.name = find("nvmlDeviceGetName")
        self.minor = find("nvmlDeviceGetMinorNumber")
        self.mig_mode = find("nvmlDeviceGetMigMode")
        self.mig_count = find("nvmlDeviceGetMaxMigDeviceCount")
        self.mig_handle = find("nvmlDeviceGetMigDeviceHandleByIndex")
        self.gpu_instance = find("nvmlDeviceGetGpuInstanceId")
        self.compute_instance = find("nvmlDeviceGetComputeInstanceId")

    def text(self, function: Call, device: c_void_p, size_bytes: int) -> str | None:
        """A name or UUID; None when refused."""
        buffer = create_string_buffer(size_bytes)
        try:
            function(device, buffer, c_uint(size_bytes))
        except NvmlError as error:
            raise_if_gone(error)
            return None
        return buffer.value.decode("ascii", "replace")

    def number(self, function: Call, device: c_void_p) -> int | None:
        """An index; None when refused."""
        value = c_uint()
        try:
            function(device, byref(value))
        except NvmlError as error:
            raise_if_gone(error)
            return None
        return value.value


class WholeGpu(Device):
    """A GPU. In MIG mode its clocks, power and link are still the whole board's.

    `gpu`, kept as `seen_as`, is its place among all GPUs of the node, by which a Mark names it; the
    library may number those that a control group shows anew.
    """

    def __init__(self, functions: Functions, device: c_void_p, gpu: int, bus: str) -> None:
        super().__init__(functions, device)
        self.seen_as = gpu
        number = functions.number(functions.index, device)
        self.identity = Identity(
            gpu=gpu if number is None else number,
            uuid=functions.text(functions.uuid, device, _UUID_BYTES),
            minor=functions.number(functions.minor, device),
            bus=bus,
            name=functions.text(functions.name, device, _NAME_BYTES) or "",
            vendor="nvidia",
        )
        calls = self._calls
        self._questions = Questions(
            each_time=[
                Question(("util_share", "mem_util_share"), calls.utilization),
                Question(("mem_used_bytes", "mem_total_bytes"), calls.memory),
                Question(("power_w",), calls.power),
                Question(("energy_j",), calls.energy),
                Question(("sm_clock_mhz",), calls.sm_clock),
                Question(("mem_clock_mhz",), calls.mem_clock),
                Question(("throttle_reasons",), calls.throttle),
                Question(GPM_COLUMNS, self._read_gpm),
            ],
            seldom=[
                Question(("temperature_c",), calls.temperature),
                Question(("pcie_gen", "pcie_width"), calls.pcie_now),
                Question(("pcie_gen_max", "pcie_width_max"), calls.pcie_max),
                Question(("ecc_uncorrected",), calls.ecc),
                Question(("remapped_rows", "remap_pending"), calls.remapped),
                Question(("processes",), self._read_processes),
            ],
        )

    def mig_is_on(self) -> bool:
        """Whether the GPU is cut into instances."""
        now, pending = c_uint(), c_uint()
        try:
            self._functions.mig_mode(self.device, byref(now), byref(pending))
        except NvmlError as error:
            raise_if_gone(error)
            return False
        return now.value == _MIG_ENABLED

    def instances(self) -> list[MigInstance]:
        """The MIG instances there are now."""
        if not self.mig_is_on():
            return []
        count = self._functions.number(self._functions.mig_count, self.device) or 0
        handles = (self._mig_handle(place) for place in range(min(count, _MOST_INSTANCES)))
        return [
            MigInstance(self._functions, self, handle) for handle in handles if handle is not None
        ]

    def _mig_handle(self, place: int) -> c_void_p | None:
        handle = c_void_p()
        try:
            self._functions.mig_handle(self.device, c_uint(place), byref(handle))
        except NvmlError as error:  # not every place holds an instance
            raise_if_gone(error)
            return None
        return handle


class MigInstance(Device):
    """One instance: its own memory and, from Hopper on, its own GPM figures. GPM counts a GPU
    instance, so compute instances that share one show the same."""

    def __init__(self, functions: Functions, parent: WholeGpu, device: c_void_p) -> None:
        super().__init__(functions, device)
        self.instance = functions.number(functions.gpu_instance, device)
        compute = functions.number(functions.compute_instance, device)
        ids = ("?" if number is None else str(number) for number in (self.instance, compute))
        self.identity = parent.identity._replace(
            uuid=functions.text(functions.uuid, device, _UUID_BYTES),
            parent_uuid=parent.identity.uuid,
            mig="/".join(ids),
        )
        self._parent = parent
        self._questions = Questions(
            each_time=[
                Question(("mem_used_bytes", "mem_total_bytes"), self._calls.memory),
                Question(GPM_COLUMNS, self._read_gpm),
            ],
            seldom=[Question(("processes",), self._read_processes)],
        )

    def is_same(self, other: MigInstance) -> bool:
        """Handles are used again for other instances: all three must agree."""
        mine, others = (self.identity, self.instance), (other.identity, other.instance)
        return self.device.value == other.device.value and mine == others

    def _open_gpm(self) -> Gpm:
        if self.instance is None:
            raise NvmlError(NOT_FOUND, "nvmlDeviceGetGpuInstanceId")
        return Gpm(self._functions.gpm, self._parent.device, self.instance)
