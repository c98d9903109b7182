"""NVML's return codes, each with the reason a person reads."""

from __future__ import annotations

from slurm_io.errors import HostError

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13

_GPU_LOST = {
    15: "the GPU is lost: it fell off the bus or cannot be reached any more",
    16: "the GPU must be reset before it can be used again",
}
_SESSION_LOST = {
    1: "NVML was closed under our hands",
    9: "the NVIDIA driver is not loaded",
    12: "libnvidia-ml.so.1 cannot find what it needs: the driver is not installed whole",
    18: "driver and libnvidia-ml.so.1 are of different versions: the driver was updated, and its "
    "kernel module must be loaded again (restart the node)",
}
_REASONS = {
    **_GPU_LOST,
    **_SESSION_LOST,
    2: "NVML calls the question wrong: its version does not fit this program",
    NOT_SUPPORTED: "this GPU does not support it",
    NO_PERMISSION: "only root may ask this",
    NOT_FOUND: "NVML finds nothing of the kind",
    INSUFFICIENT_SIZE: "NVML has more to say than there was room for",
    8: "the GPU's power cables are not attached properly",
    TIMEOUT: "the driver did not answer in time",
    11: "the kernel has trouble with the GPU's interrupts",
    FUNCTION_NOT_FOUND: "this driver is too old: its NVML has no such function",
    14: "the GPU's infoROM is damaged",
    17: "the operating system or a control group forbids this GPU",
    19: "the GPU is in use",
    20: "NVML has no memory left",
    21: "the driver has no data yet",
    23: "the driver ran out of resources",
    25: "this driver's NVML wants another version of the question",
    26: "this driver's NVML no longer answers this",
    27: "the GPU is not ready",
    28: "no GPU was found",
    29: "the GPU is not in a state to answer",
    999: "an unknown error inside the driver",
}  # fmt: skip


class NvmlError(HostError):
    """A call failed. `code` is NVML's, `function` what was called."""

    def __init__(self, code: int, function: str) -> None:
        super().__init__(f"{reason_of(code)} ({function}: NVML error {code})")
        self.code = code
        self.function = function

    @property
    def gpu_is_lost(self) -> bool:
        """This GPU will not answer again without a reset; the others may."""
        return self.code in _GPU_LOST

    @property
    def session_is_lost(self) -> bool:
        """Nothing will answer any more until NVML is opened anew."""
        return self.code in _SESSION_LOST


def reason_of(code: int) -> str:
    """One reason for each code."""
    return _REASONS.get(code, "an error this program does not know")


def raise_if_gone(error: NvmlError) -> None:
    """Raise it when GPU or driver is gone; a mere refusal costs only the answer."""
    if error.gpu_is_lost or error.session_is_lost:
        raise error
