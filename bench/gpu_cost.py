"""What reading 8 GPUs costs the sampler, against a library that stands in for NVIDIA's.

    python bench/gpu_cost.py [--seconds 15] [--gpus 8]

Three real samplers, one after the other, beside a job that sleeps: without the source `gpu`, with
it (a helper process asks the library), and with the library inside the sampler, which is how it is
not done: a call that hangs would stop the sampler. The stand-in answers at once, so this is our own
cost; what NVIDIA's library needs comes on top. Needs gcc.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slurm_io.model import JobIdentity, SamplerSpec

SETTLE_S = 6
WAYS = ("without gpu", "helper", "inside")


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--sampler", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sampler:
        be_a_sampler(*options.sampler)
        return
    print(f"{'':14}{'CPU ms/tick':>12}{'helper':>9}{'RSS MiB':>9}{'helper':>8}{'its own':>9}")
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            measure(way, options, Path(folder))


def measure(way: str, options: argparse.Namespace, folder: Path) -> None:
    """One sampler for a while."""
    from lab.peers import cpu_s, rss_peak_bytes

    from tests.labs.gpu.stand_in import StandIn  # loads pytest, which no sampler does

    lab = StandIn(folder, gpus=options.gpus)
    spool = folder / "spool"
    spool.mkdir()
    job = subprocess.Popen(["sleep", "600"])
    spec = SamplerSpec(
        job=JobIdentity("bench", "1", 0, "bench", os.getuid()), node="here", mode="user",
        spool=str(spool), ring_dir=str(folder), root_pid=job.pid, waits_hz=1.0, gpus="all",
        collectors_off=("gpu",) if way == WAYS[0] else (),
    )  # fmt: skip
    (spool / "sampler.json").write_text(json.dumps(spec.to_dict()))
    argv = [sys.executable, __file__, "--sampler", way, str(lab.library), str(spool)]
    sampler = subprocess.Popen(argv)
    try:
        time.sleep(SETTLE_S)
        pids = [sampler.pid, *helpers_of(sampler.pid)]
        before = [cpu_s(pid) for pid in pids]
        time.sleep(options.seconds)
        used_ms = [
            1000 * (cpu_s(pid) - was) / options.seconds
            for pid, was in zip(pids, before, strict=True)
        ]
        memory = [rss_peak_bytes(pid) / 2**20 for pid in pids] + [0.0]
        own = private_mib(pids[1]) if len(pids) > 1 else 0.0
        print(
            f"{way:14}{used_ms[0]:12.2f}{sum(used_ms[1:]):9.2f}{memory[0]:9.1f}{memory[1]:8.1f}{own:9.1f}"
        )
        sampler.send_signal(signal.SIGTERM)
        sampler.wait(10)
    finally:
        for process in (sampler, job):
            process.kill()
            process.wait()


def be_a_sampler(way: str, library_path: str, spool: str) -> None:
    """A sampler that takes the stand-in for the library and believes the driver to be loaded."""
    from slurm_io.collectors import gpu
    from slurm_io.gpus import serve
    from slurm_io.gpus.nvml import library
    from slurm_io.sampler.main import run

    library.PATHS = (library_path,)
    serve.nvidia_is_here = lambda proc_root: True  # type: ignore[assignment]
    gpu._is_driver_loaded = lambda context: True
    if way == WAYS[2]:
        gpu.Gpu._start_helper = lambda self, without: Inside(self)  # type: ignore[assignment,return-value]
    run(Path(spool))


class Inside:
    """In a helper's place: asks the library right here."""

    end = None
    pid = 0
    shared = bytearray(2)

    def __init__(self, collector: object) -> None:
        from slurm_io.gpus.model import Mark
        from slurm_io.gpus.serve import Round, open_drivers

        wish = collector._served  # type: ignore[attr-defined]
        drivers, _ = open_drivers(wish, Path("/proc"), Path("/sys"), frozenset(), Mark())
        self._round = Round(drivers)

    def ask(self) -> None:
        """Nothing to do."""

    def take(self) -> list[dict[str, object]]:
        """A round at once."""
        return [{**self._round.read(), "cpu_s": 0.0}]

    def close(self) -> None:
        """Nothing to do."""

    def is_gone(self) -> bool:
        """It never was there."""
        return True


def helpers_of(pid: int) -> list[int]:
    """The sampler's GPU helper."""
    told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = " ".join(told).split()
    return [
        int(child)
        for child in children
        if Path(f"/proc/{child}/comm").read_text() == "slurm_io_gpu\n"
    ]


def private_mib(pid: int) -> float:
    """Memory that only this process holds."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


if __name__ == "__main__":
    main()
