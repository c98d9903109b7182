"""The job's GPUs: how busy, how hot, how much memory and power, which errors.

Source
    NVIDIA: NVML (libnvidia-ml.so.1 through ctypes); GPM for SM, tensor, DRAM and PCIe figures, from
    Hopper on. AMD: files of amdgpu in /sys. Both are read by a helper process ``slurm_io_gpu``,
    which is asked each second and has answered by the next: a GPU that falls off its bus hangs
    whoever asks it. A helper that is late is killed or left behind, and the next leaves out that
    GPU. Never DCGM, no CUDA context, no profiling lock. Intel GPUs are not read.

Columns
    Table ``gpu``, a row per GPU and second, MIG instances as rows of their own (memory and GPM
    only; NVML does not tell their utilisation). Temperature, PCIe link, ECC and remapped rows are
    looked at every 10 rounds and repeated between. A column that GPU or driver do not give is null,
    with the reason in meta.json under ``unknown``. ``util_share`` counts any kernel: a rank that
    spins in a collective shows 1.0 with low power. AMD: ``throttle_reasons`` are amdgpu's bits;
    ``sm_active_share`` and its like, ECC and remapped rows are null.
    Only the job's GPUs are touched: those that the Prolog names (SLURM_JOB_GPUS, or UUIDs), else
    those that its processes have open. A user's own run takes what its environment names, else all
    it can see, "not known whose". meta.json names the GPUs, losses, hangs and Xids, and which rank
    uses which GPU where that can be proved.

Needs
    The vendor's driver. Users see the same; in MIG mode NVML tells other users' instances and the
    Xids of instances only to root. While the helper runs, NVIDIA's module cannot be unloaded and
    none of these GPUs be reset (the job's own processes hold them too): ``pkill -x slurm_io_gpu``
    ends it, and it stays away for that job.

Cost
    Ours, with 8 GPUs and a stand-in library that answers at once (bench/gpu_cost.py): a second
    takes 0.2 ms of CPU in the sampler and 0.7 ms in the helper (one GPU: 0.3 ms), which holds 9 MiB
    of its own; the sampler's memory does not grow. What NVIDIA's library itself needs comes on top:
    it is in the helper's CPU time, by which the governor has GPUs asked less often.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick

if TYPE_CHECKING:
    from slurm_io.collectors.gpu.seen import Seen
    from slurm_io.gpus.attendant import Attendant
    from slurm_io.gpus.model import Wish
    from slurm_io.host.helper import Helper
    from slurm_io.host.place_probes import PlaceProbes

_LOOK_AT_FILES_EVERY_NS = 30_000_000_000
_ASK_LOG_EVERY_NS = 60_000_000_000
_LOG_TIMEOUT_S = 3.0
_INTEL = ("xe", "i915")


@COLLECTORS.register("gpu")
class Gpu:
    """Rows of the job's GPUs."""

    name = "gpu"
    table = "gpu"
    period_s = 1.0

    def __init__(self) -> None:
        self._context: Context | None = None
        self._reset()

    def _reset(self) -> None:
        self._attendant: Attendant | None = None
        self._log_probes: PlaceProbes | None = None
        self._wish: Wish | None = None
        self._seen: Seen | None = None
        self._looked_ns: int | None = None
        self._asked_log_ns: int | None = None
        self._troubles_told = 0
        self._opened_boot_s = 0.0

    def open(self, context: Context) -> Availability:
        """Whether there is a GPU driver, and GPUs that are the job's. The helper starts later."""
        self.close()
        self._reset()
        self._context = context
        self._opened_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not _is_driver_loaded(context):
            return Availability("absent", _why_none(context.sys_root))
        from slurm_io.collectors.gpu.whose import wish_of

        wish = wish_of(context)
        if isinstance(wish, str):
            return Availability("absent", wish)
        self._serve(wish)
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of the answers that have come; the next question is put."""
        attendant, seen, context = self._attendant, self._seen, self._context
        if attendant is None or seen is None or context is None:
            return []
        rows: list[Row] = []
        for answer in attendant.exchange(tick.mono_ns / 1e9):
            rows += seen.take(answer, tick, context)
        self._look_at_files(tick, context)
        self._ask_kernel_log(tick, attendant, seen)
        return rows

    @property
    def helper_cpu_s(self) -> float:
        """CPU seconds of living helpers, which nobody has waited for yet."""
        return self._attendant.helper_cpu_s if self._attendant is not None else 0.0

    def facts(self) -> dict[str, object]:
        """Who the GPUs are and whose, what is unknown and why, losses, hangs, Xids, ranks."""
        if self._seen is None or self._attendant is None:
            return {}
        return self._seen.facts(self._wish, self._attendant)

    def close(self) -> None:
        """Kill the helper."""
        if self._attendant is not None:
            self._attendant.close()
        if self._log_probes is not None:
            self._log_probes.stop()

    def _serve(self, wish: Wish) -> None:
        from slurm_io.collectors.gpu.seen import Seen
        from slurm_io.gpus.attendant import Attendant
        from slurm_io.gpus.nvml.functions import name_of

        self._wish = wish
        self._seen = self._seen or Seen()
        self._attendant = Attendant(self._start_helper, name_of)

    def _start_helper(self, without: frozenset[int]) -> Helper:
        from slurm_io.host.helper import Channel, Helper

        context, wish, seen = self._context, self._wish, self._seen
        assert context is not None and wish is not None and seen is not None

        def life(channel: Channel) -> None:
            from slurm_io.gpus.serve import serve

            serve(channel, wish, context.proc_root, context.sys_root, without)

        seen.begin_anew()
        return Helper(life, "slurm_io_gpu")

    def _look_at_files(self, tick: Tick, context: Context) -> None:
        """Where only open device files tell the job's GPUs, more may have been opened since."""
        wish = self._wish
        if wish is None or wish.files is None:
            return
        from slurm_io.collectors.gpu.whose import BY_OPEN_FILES, open_files_of_job

        if wish.source != BY_OPEN_FILES:
            return
        looked_ns = self._looked_ns
        if looked_ns is not None and tick.mono_ns - looked_ns < _LOOK_AT_FILES_EVERY_NS:
            return
        self._looked_ns = tick.mono_ns
        files = wish.files.with_all_of(open_files_of_job(context))
        if looked_ns is not None and files != wish.files:
            self.close()
            self._serve(wish._replace(files=files))

    def _ask_kernel_log(self, tick: Tick, attendant: Attendant, seen: Seen) -> None:
        """After each new loss or hang, as root, not more than once a minute."""
        if self._log_probes is not None:
            for found in self._log_probes.take().values():
                seen.kernel_log = found
        troubles = len(attendant.hangs) + len(seen.lost)
        asked_ns = self._asked_log_ns
        is_early = asked_ns is not None and tick.mono_ns - asked_ns < _ASK_LOG_EVERY_NS
        if troubles <= self._troubles_told or is_early or os.geteuid() != 0:
            return
        from slurm_io.gpus.kernel_log import xids_since
        from slurm_io.host.place_probes import PlaceProbes

        self._asked_log_ns, self._troubles_told = tick.mono_ns, troubles
        self._log_probes = self._log_probes or PlaceProbes(_LOG_TIMEOUT_S)
        self._log_probes.ask({"kernel log": (xids_since, (self._opened_boot_s,))})


def _is_driver_loaded(context: Context) -> bool:
    version = context.proc_root / "driver" / "nvidia" / "version"
    return version.exists() or _drives(context.sys_root, "amdgpu")


def _drives(sys_root: Path, driver: str) -> bool:
    """Whether a PCI driver has a device: an address among its files."""
    try:
        return any(":" in name for name in os.listdir(f"{sys_root}/bus/pci/drivers/{driver}"))
    except OSError:
        return False


def _why_none(sys_root: Path) -> str:
    if any(_drives(sys_root, driver) for driver in _INTEL):
        return "only Intel GPUs are here, which are not read"
    return "no driver of NVIDIA or AMD GPUs is loaded"
