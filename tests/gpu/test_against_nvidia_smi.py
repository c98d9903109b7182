"""Our columns beside those of nvidia-smi, on a real NVIDIA GPU: idle, and under a small load.

Skipped where there is none. Takes about a minute. `pytest tests/gpu -s` prints what reading costs
here: the one figure that no stand-in can give.
"""

from __future__ import annotations

import contextlib
import csv
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.collectors.gpu import Gpu
from slurm_io.store.schema import TABLES

COLUMNS = TABLES["gpu"].column_names()
MIB = 1 << 20
READINGS = 5
QUERY = (
    "index", "uuid", "utilization.gpu", "memory.used", "memory.total", "power.draw", "clocks.sm",
    "clocks.mem", "temperature.gpu", "pcie.link.gen.current", "pcie.link.width.current",
    "pcie.link.gen.max", "pcie.link.width.max", "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
)  # fmt: skip
EXACT = {
    "memory.total": ("mem_total_bytes", MIB), "pcie.link.gen.max": ("pcie_gen_max", 1),
    "pcie.link.width.max": ("pcie_width_max", 1), "pcie.link.width.current": ("pcie_width", 1),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", 1),
}  # fmt: skip
# nvidia-smi's name -> (ours, its unit in ours, absolute tolerance, relative tolerance)
CLOSE = {
    "utilization.gpu": ("util_share", 0.01, 0.15, 0.0),
    "memory.used": ("mem_used_bytes", MIB, 64 * MIB, 0.02),
    "power.draw": ("power_w", 1.0, 15.0, 0.15),
    "clocks.sm": ("sm_clock_mhz", 1, 90, 0.1),
    "clocks.mem": ("mem_clock_mhz", 1, 90, 0.1),
    "temperature.gpu": ("temperature_c", 1, 6, 0.0),
}
LOAD = """
import sys, time, torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
"""


def nvidia_smi() -> str:
    path = shutil.which("nvidia-smi")
    if path is None or _fails([path, "-L"]):
        pytest.skip("no NVIDIA GPU with its driver here (nvidia-smi -L gives none)")
    return path


def _fails(argv: list[str]) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode != 0


pytestmark = pytest.mark.gpu


class Watch:
    """The collector at work in real time, and nvidia-smi beside it."""

    def __init__(self) -> None:
        self.smi = nvidia_smi()
        self.members: tuple[Member, ...] = ()
        self.gpu = Gpu()
        context = Context(
            proc_root=Path("/proc"), sys_root=Path("/sys"), members=lambda: self.members,
            cgroup_paths=lambda: (), capacity_mounts=lambda: (),
            phase_of=lambda pid: ("none", None), gpus="all",
        )  # fmt: skip
        assert self.gpu.open(context).state == "on"

    def rows(self, seconds: float) -> list[dict[str, Any]]:
        """Ticks of one second for so long."""
        found: list[dict[str, Any]] = []
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            tick = Tick(time.time_ns(), time.monotonic_ns(), None)
            found += (dict(zip(COLUMNS, row, strict=True)) for row in self.gpu.collect(tick))
            time.sleep(1.0)
        return found

    def compared(self) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """Rows of some seconds, and what nvidia-smi said in the midst of them."""
        rows: list[dict[str, Any]] = []
        said: list[dict[str, str]] = []
        for _ in range(READINGS):
            rows += self.rows(2.0)
            said += ask(self.smi)
        return rows + self.rows(2.0), said


@pytest.fixture
def watch() -> Iterator[Watch]:
    one = Watch()
    one.rows(13.0)  # opening takes seconds without persistence mode; some columns come every 10 s
    yield one
    one.gpu.close()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[float], int]]:
    """Starts a small load on the first GPU; its pid."""
    torch = pytest.importorskip("torch", reason="the load needs torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA, so there is nothing to make a load with")
    started: list[subprocess.Popen[str]] = []

    def start(seconds: float) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", LOAD, str(seconds)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ask(smi: str) -> list[dict[str, str]]:
    """One row for each GPU. Columns an older nvidia-smi does not know are left out."""
    names = list(QUERY)
    while True:
        done = subprocess.run(
            [smi, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"],
            check=False, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        if done.returncode == 0:
            reader = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
            return [dict(zip(names, line, strict=True)) for line in reader]
        refused = [name for name in names if f'"{name}"' in done.stdout]
        assert refused, done.stdout + done.stderr
        names = [name for name in names if name not in refused]


def number(text: str) -> float | None:
    """None for [N/A] and its like."""
    try:
        return float(text)
    except ValueError:
        return None


def differences(rows: list[dict[str, Any]], said: list[dict[str, str]]) -> list[str]:
    """Where our figures and nvidia-smi's part by more than they may."""
    found = []
    for uuid in {line["uuid"] for line in said}:
        ours = [row for row in rows if row["uuid"] == uuid]
        theirs = [line for line in said if line["uuid"] == uuid]
        if not ours:
            found.append(f"{uuid}: no row of ours")
            continue
        for name, (column, unit) in EXACT.items():
            found += _parted(uuid, name, column, ours, theirs, unit, 0.0, 0.0)
        for name, (column, unit, absolute, relative) in CLOSE.items():
            found += _parted(uuid, name, column, ours, theirs, unit, absolute, relative)
    return found


def _parted(
    uuid: str, name: str, column: str, ours: list[dict[str, Any]], theirs: list[dict[str, str]],
    unit: float, absolute: float, relative: float,
) -> list[str]:  # fmt: skip
    said = [value for line in theirs if (value := number(line.get(name, ""))) is not None]
    read = [row[column] for row in ours if row[column] is not None]
    if not said:
        return []
    if not read:
        return [f"{uuid} {column}: null, nvidia-smi says {said}"]
    expected, got = statistics.median(said) * unit, statistics.median(read)
    if abs(got - expected) <= absolute + relative * abs(expected):
        return []
    return [f"{uuid} {column}: {got}, nvidia-smi {name}: {expected}"]


def test_idle(watch: Watch) -> None:
    rows, said = watch.compared()
    assert differences(rows, said) == []
    assert [row["gpu"] for row in rows[: len(ask(watch.smi))]] == [
        int(line["index"]) for line in ask(watch.smi)
    ]


def test_under_load(watch: Watch, load: Callable[[float], int]) -> None:
    pid = load(60.0)
    watch.members = (Member(pid, 1, 1, "python", 0, "rank"),)
    watch.rows(3.0)
    rows, said = watch.compared()
    assert differences(rows, said) == []
    busy = [row for row in rows if row["util_share"] is not None and row["util_share"] > 0.5]
    assert busy, "no GPU was busy under load"
    facts: Any = watch.gpu.facts()
    assert facts["state"] == "on" and facts["xids"] == [] and facts["lost"] == []
    if "sm_active_share" not in facts["unknown"]:
        assert statistics.median(row["sm_active_share"] for row in busy) > 0.3
        assert statistics.median(row["tensor_active_share"] for row in busy) > 0.05
    if "energy_j" not in facts["unknown"]:
        joules = sum(row["energy_j"] or 0.0 for row in busy)
        seconds = sum(row["interval_ns"] for row in busy if row["energy_j"] is not None) / 1e9
        power_w = statistics.mean(row["power_w"] for row in busy)
        assert joules / seconds == pytest.approx(power_w, rel=0.15)
    watch.rows(11.0)
    facts = watch.gpu.facts()
    if Path("/proc/self/ns/pid").readlink() == Path("pid:[4026531836]"):
        assert facts["ranks"]["0"]["gpus"], facts["ranks"]


def test_what_reading_costs_here(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    before_s, began_s = watch.gpu.helper_cpu_s, time.monotonic()
    rows = watch.rows(10.0)
    used_ms = 1000 * (watch.gpu.helper_cpu_s - before_s) / (time.monotonic() - began_s)
    intervals_s = [row["interval_ns"] / 1e9 for row in rows]
    facts: Any = watch.gpu.facts()
    with capsys.disabled():
        print(
            f"\ndriver {facts['driver']}, {len(facts['gpus'])} GPUs: helper {used_ms:.2f} ms CPU a "
            f"second, rows every {statistics.median(intervals_s):.2f} s; "
            f"null: {', '.join(sorted(facts['unknown'])) or 'nothing'}"
        )
    assert statistics.median(intervals_s) < 1.5, "a round takes longer than a second"
    assert used_ms < 100, "reading the GPUs costs more than a tenth of a core"


def test_nothing_holds_the_gpu_after_close(watch: Watch) -> None:
    attendant = watch.gpu._attendant
    assert attendant is not None and attendant._helper is not None
    pid = attendant._helper.pid
    assert _gpus_held_by(pid)
    watch.gpu.close()
    assert not Path(f"/proc/{pid}").exists()
    assert not _gpus_held_by("self")


def _gpus_held_by(pid: int | str) -> set[str]:
    held = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(path.readlink()))
    return {name for name in held if name.startswith("/dev/nvidia")}
