"""Names of the NVML functions in use, and the number each has in a Mark. Loads nothing."""

from __future__ import annotations

FUNCTIONS = (
    "nvmlInit_v2", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion",
    "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2", "nvmlEventSetWait",
    "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
)  # fmt: skip

_NO_FUNCTION = "a file of /sys"


def number_of(name: str) -> int:
    """From 1 on: 0 is no function."""
    return FUNCTIONS.index(name) + 1


def name_of(number: int) -> str:
    """The inverse of :func:`number_of`."""
    return FUNCTIONS[number - 1] if 0 < number <= len(FUNCTIONS) else _NO_FUNCTION
