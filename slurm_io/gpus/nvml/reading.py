"""What is asked of one device, question by question, and what becomes of the questions it refuses.

A refused question costs its columns and is asked again only in the rounds that look at everything
(a GPU that was in MIG mode may answer later). A lost GPU and a lost driver are not refusals: they
raise.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_uint, c_ulonglong, c_void_p

from slurm_io.gpus.model import Value
from slurm_io.gpus.nvml.errors import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    NvmlError,
    raise_if_gone,
)
from slurm_io.gpus.nvml.library import Call, Library
from slurm_io.gpus.nvml.structs import (
    Memory,
    MemoryV2,
    ProcessInfo,
    Temperature,
    Utilization,
    versioned,
)

Values = dict[str, Value]
_CLOCK_SM, _CLOCK_MEM = c_uint(1), c_uint(2)
_UNCORRECTED, _SINCE_LOAD = c_uint(1), c_uint(0)
_TEMPERATURE_OF_GPU = c_uint(0)
_MOST_PROCESSES = 512
_MW_PER_W, _MJ_PER_J = 1000.0, 1000.0


class Question:
    """One or a few calls that fill some columns."""

    def __init__(self, columns: tuple[str, ...], ask: Callable[[], Values]) -> None:
        self.columns = columns
        self.ask = ask
        self.refused = ""


class Questions:
    """Those put to one device each time, and those only now and then, whose answers are kept."""

    def __init__(self, each_time: list[Question], seldom: list[Question]) -> None:
        self._each_time = each_time
        self._seldom = seldom
        self._kept: Values = {}

    def ask(self, everything: bool) -> Values:
        """The answers, columns that were refused left out. Raises NvmlError when GPU or driver is
        gone."""
        if everything:
            self._kept = {}
            for question in self._seldom:
                self._put(question, self._kept)
        values = dict(self._kept)
        for question in self._each_time:
            if everything or not question.refused:
                self._put(question, values)
        return values

    def refused(self) -> dict[str, str]:
        """Column -> why it has no values."""
        every = [*self._each_time, *self._seldom]
        return {column: each.refused for each in every if each.refused for column in each.columns}

    def _put(self, question: Question, values: Values) -> None:
        try:
            values.update(question.ask())
            question.refused = ""
        except NvmlError as error:
            raise_if_gone(error)
            question.refused = str(error)


class DeviceFunctions:
    """The functions of :class:`DeviceCalls`, looked up once for all devices."""

    def __init__(self, library: Library) -> None:
        find = library.function
        self.utilization = find("nvmlDeviceGetUtilizationRates")
        self.memory = find("nvmlDeviceGetMemoryInfo")
        self.memory_v2 = find("nvmlDeviceGetMemoryInfo_v2")
        self.power = find("nvmlDeviceGetPowerUsage")
        self.energy = find("nvmlDeviceGetTotalEnergyConsumption")
        self.clock = find("nvmlDeviceGetClockInfo")
        self.throttle = find(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        self.temperature = find("nvmlDeviceGetTemperature")
        self.temperature_v = find("nvmlDeviceGetTemperatureV")
        self.pcie_gen = find("nvmlDeviceGetCurrPcieLinkGeneration")
        self.pcie_width = find("nvmlDeviceGetCurrPcieLinkWidth")
        self.pcie_gen_max = find("nvmlDeviceGetMaxPcieLinkGeneration")
        self.pcie_width_max = find("nvmlDeviceGetMaxPcieLinkWidth")
        self.ecc = find("nvmlDeviceGetTotalEccErrors")
        self.remapped = find("nvmlDeviceGetRemappedRows")
        self.processes = find(
            "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"
        )


class DeviceCalls:
    """The questions of one device handle. Each method raises NvmlError when refused."""

    def __init__(self, functions: DeviceFunctions, device: c_void_p) -> None:
        self._functions = functions
        self._device = device
        self._number, self._long = c_uint(), c_ulonglong()
        self._utilization = Utilization()
        self._memory_v2 = MemoryV2()
        self._energy_mj: int | None = None

    def utilization(self) -> Values:
        """Shares of the driver's last sample period (1/6 s to 1 s)."""
        rates = self._utilization
        self._functions.utilization(self._device, byref(rates))
        return {"util_share": rates.gpu / 100, "mem_util_share": rates.memory / 100}

    def memory(self) -> Values:
        """Before R510 `mem_used_bytes` includes what the driver reserves, which is then null."""
        memory = self._memory_v2
        memory.version = versioned(MemoryV2, 2)
        try:
            self._functions.memory_v2(self._device, byref(memory))
        except NvmlError as error:
            raise_if_gone(error)
            older = Memory()
            self._functions.memory(self._device, byref(older))
            return {"mem_used_bytes": older.used, "mem_total_bytes": older.total}
        return {
            "mem_used_bytes": memory.used,
            "mem_total_bytes": memory.total,
            "mem_reserved_bytes": memory.reserved,
        }

    def power(self) -> Values:
        """Watts: mean of the last second from Ampere on (GA100 apart), of the moment before."""
        return {"power_w": self._uint(self._functions.power) / _MW_PER_W}

    def energy(self) -> Values:
        """Joules since the last reading; nothing at the first, or when the counter went back."""
        self._functions.energy(self._device, byref(self._long))
        last, self._energy_mj = self._energy_mj, self._long.value
        if last is None or self._energy_mj < last:
            return {}
        return {"energy_j": (self._energy_mj - last) / _MJ_PER_J}

    def sm_clock(self) -> Values:
        """MHz."""
        return {"sm_clock_mhz": self._uint(self._functions.clock, _CLOCK_SM)}

    def mem_clock(self) -> Values:
        """MHz."""
        return {"mem_clock_mhz": self._uint(self._functions.clock, _CLOCK_MEM)}

    def throttle(self) -> Values:
        """Bits of nvmlClocksEventReasons."""
        self._functions.throttle(self._device, byref(self._long))
        return {"throttle_reasons": self._long.value & 2**63 - 1}

    def temperature(self) -> Values:
        """°C of the GPU."""
        try:
            celsius = self._uint(self._functions.temperature, _TEMPERATURE_OF_GPU)
        except NvmlError as error:
            if error.code != FUNCTION_NOT_FOUND:
                raise
            newer = Temperature(version=versioned(Temperature, 1), sensor=0)
            self._functions.temperature_v(self._device, byref(newer))
            celsius = newer.temperature
        return {"temperature_c": celsius}

    def pcie_now(self) -> Values:
        """Generation and lanes; an idle GPU lowers its generation by itself."""
        return {
            "pcie_gen": self._uint(self._functions.pcie_gen),
            "pcie_width": self._uint(self._functions.pcie_width),
        }

    def pcie_max(self) -> Values:
        """What GPU and slot can do together."""
        return {
            "pcie_gen_max": self._uint(self._functions.pcie_gen_max),
            "pcie_width_max": self._uint(self._functions.pcie_width_max),
        }

    def ecc(self) -> Values:
        """Uncorrected errors since the driver was loaded."""
        self._functions.ecc(self._device, _UNCORRECTED, _SINCE_LOAD, byref(self._long))
        return {"ecc_uncorrected": self._long.value}

    def remapped(self) -> Values:
        """Rows remapped after uncorrectable errors, and whether one waits for a reset."""
        correctable, uncorrectable, pending, failed = (c_uint() for _ in range(4))
        self._functions.remapped(
            self._device, byref(correctable), byref(uncorrectable), byref(pending), byref(failed)
        )
        return {"remapped_rows": uncorrectable.value, "remap_pending": bool(pending.value)}

    def processes(self) -> list[int]:
        """Process ids with a compute context, as the machine's first pid namespace counts."""
        room, count = 16, c_uint()
        while True:
            infos = (ProcessInfo * room)()
            count.value = room
            try:
                self._functions.processes(self._device, byref(count), infos)
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE or room >= _MOST_PROCESSES:
                    raise
                room = min(max(2 * room, count.value + 4), _MOST_PROCESSES)
                continue
            return sorted({info.pid for info in infos[: count.value]})

    def _uint(self, function: Call, *arguments: c_uint) -> int:
        function(self._device, *arguments, byref(self._number))
        return self._number.value
