"""Builds the library, writes what it shall say, and the /proc that goes with it."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "nvml.c"
GIB = 1 << 30

# What drivers of old did not have.
BEFORE_GPM = ("nvmlGpm*",)
BEFORE_R510 = (
    *BEFORE_GPM, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperatureV", "nvmlDeviceGetComputeRunningProcesses_v3",
)  # fmt: skip
BEFORE_MIG = (
    *BEFORE_R510, "nvmlDeviceGetMig*", "nvmlDeviceGetMaxMig*", "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetComputeInstanceId",
)  # fmt: skip


@functools.cache
def _built(without: tuple[str, ...]) -> bytes:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs gcc to build the library that stands in for libnvidia-ml")
    with tempfile.TemporaryDirectory() as folder:
        library, names = Path(folder) / "lib.so", Path(folder) / "names"
        exported = [name for name in _functions() if not _is_one_of(name, without)]
        names.write_text("{ global: " + "".join(f"{name}; " for name in exported) + "local: *; };")
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", f"-Wl,--version-script={names}"]
            + ["-o", str(library), str(SOURCE), "-ldl"],
            check=True,
        )
        return library.read_bytes()


def _functions() -> list[str]:
    """Every function the source defines or makes by macro."""
    return sorted(set(re.findall(r"\bnvml[A-Z]\w+", SOURCE.read_text())))


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class StandIn:
    """A library below `root`, beside a /proc (`root`/proc) whose driver knows the same GPUs.

    Attributes:
        library: path of the library.
        values: what it says, by key (see nvml.c); :meth:`tell` changes some.
    """

    def __init__(
        self, root: Path, gpus: int = 2, without: tuple[str, ...] = (), in_proc: bool = True
    ) -> None:
        self.root = root
        self.library = root / "lib" / "libnvidia-ml.so.1"
        self.library.parent.mkdir(parents=True)
        self.library.write_bytes(_built(without))
        self.library.chmod(0o755)
        self.values: dict[str, object] = {"count": gpus, "driver": "550.54.15", "nvml": "12.550"}
        for gpu in range(gpus):
            self.values |= {f"{gpu}.{name}": value for name, value in _an_h100(gpu).items()}
        self._writes = 0
        self.tell({})
        write_proc(root / "proc", self.values, gpus if in_proc else 0)

    def tell(self, values: dict[str, object]) -> None:
        """Change values; None takes one away."""
        self.values |= values
        self.values = {key: value for key, value in self.values.items() if value is not None}
        script = Path(f"{self.library}.script")
        new = script.with_suffix(".new")
        new.write_text("".join(f"{key}={value}\n" for key, value in self.values.items()))
        # The library looks at the time of change: two writes must never share one.
        self._writes += 1
        os.utime(new, ns=(self._writes * 10**9, self._writes * 10**9))
        new.replace(script)

    def cut_into(self, gpu: int, instances: Iterable[tuple[int, int, str]]) -> None:
        """Switch a GPU to MIG: (GPU instance, compute instance, uuid) each."""
        changes: dict[str, object] = {f"{gpu}.mig": 1}
        for place, (gi, ci, uuid) in enumerate(instances):
            values = {"gi": gi, "ci": ci, "uuid": uuid, "mem_total": 10 * GIB, "gpm": 1, "pids": ""}
            values |= {"mem_used": (place + 1) * GIB, "mem_reserved": 0}
            changes |= {f"{gpu}.mig.{place}.{name}": value for name, value in values.items()}
            changes |= {f"{gpu}.gi.{gi}.gpm.{name}": 10 * gi for name in (2, 5, 10, 21)}
        self.tell(changes)

    def report_xid(self, gpu: int, xid: int, instance: int | None = None) -> None:
        """One more event."""
        with Path(f"{self.library}.xids").open("a") as file:
            file.write(f"{gpu} {xid}{'' if instance is None else f' {instance}'}\n")


def uuid(gpu: int) -> str:
    """Of the stand-in's GPU."""
    return f"GPU-{gpu:08x}-1111-2222-3333-444455556666"


def bus(gpu: int) -> str:
    """Its PCI address."""
    return f"0000:{0x10 + gpu:02x}:00.0"


def write_proc(proc: Path, values: dict[str, object], gpus: int) -> None:
    """/proc/driver/nvidia as the driver shows it."""
    folder = proc / "driver" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n")
    for gpu in range(gpus):
        one = folder / "gpus" / bus(gpu)
        one.mkdir(parents=True)
        (one / "information").write_text(
            f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t {uuid(gpu)}\n"
            f"Bus Location: \t {bus(gpu)}\nDevice Minor: \t {values[f'{gpu}.minor']}\n"
            "GPU Excluded:\t No\n"
        )


def _an_h100(gpu: int) -> dict[str, object]:
    return {
        "uuid": uuid(gpu), "bus": bus(gpu), "minor": gpu, "name": "NVIDIA H100 80GB HBM3",
        "util": 97 - gpu, "mem_util": 41, "mem_total": 80 * GIB, "mem_used": 61 * GIB,
        "mem_reserved": GIB // 2, "power_mw": 655_250, "energy_mj": 1_000_000, "sm_mhz": 1755,
        "mem_mhz": 2619, "throttle": 4, "temp": 61, "gen": 5, "width": 16, "gen_max": 5,
        "width_max": 16, "ecc": 0, "remapped": 0, "remap_pending": 0, "mig": 0, "gpm": 1,
        "gpm.2": 82.5, "gpm.5": 33.25, "gpm.10": 40, "gpm.21": 1500.5, "pids": "",
    }  # fmt: skip
