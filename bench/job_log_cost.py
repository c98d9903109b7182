"""What reading the job's own output costs the sampler: CPU a second, memory, bytes left out.

A process prints at a steady pace into a file; the collector looks at it as in a job. CPU includes
the children that read. Budget: 1 ms of CPU a second, 1 MiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import slurm_io.sampler.main  # noqa: F401 - what is resident without this collector
from slurm_io.collectors.base import Context, Member, Tick
from slurm_io.collectors.log import JobLog
from slurm_io.host.pidstat import parse_stat

LINE = (
    " [2025-06-01 10:00:00.000000] iteration {0:8d}/  500000 | consumed samples: {0:12d} | elapsed "
    "time per iteration (ms): 2500.0 | throughput per GPU (TFLOP/s/GPU): 400.1 | learning rate: "
    "3.0E-04 | global batch size:  1024 | lm loss: 2.5E+00 | loss scale: 1.0 | grad norm: 0.300 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
NOISE = "2025-06-01 10:00:00 INFO worker says something of no interest to anybody at all\n"
WRITER = """
import sys, time
line, noise, rate = sys.argv[1], sys.argv[2], float(sys.argv[3])
began, written, step = time.monotonic(), 0, 0
while True:
    step += 1
    text = line.format(step) + noise * int(sys.argv[4])
    written += len(text)
    sys.stdout.write(text)
    sys.stdout.flush()
    time.sleep(max(0.0, began + written / rate - time.monotonic()))
"""


def main() -> None:
    """One line for each pace and mixture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=31.0)
    seconds = parser.parse_args().seconds
    print("output                     CPU/s    without children  left out   memory")
    for name, rate, noise in (
        ("1 MB/s, steps only", 1e6, 0),
        ("1 MB/s, 1 step in 20 lines", 1e6, 20),
        ("5 kB/s, steps only", 5e3, 0),
        ("silent", 1.0, 0),
    ):
        subprocess.run(
            [sys.executable, __file__, "--seconds", str(seconds)],
            env={**os.environ, "JOB_LOG_COST": f"{name}|{rate}|{noise}"},
            check=True,
        )


def one(name: str, rate: float, noise: int, seconds: float) -> None:
    """Measured in a process of its own: memory is that of one job."""
    rss_before = _rss_kib()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slurm-1.out"
        with path.open("wb") as file:
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, LINE, NOISE, str(rate), str(noise)], stdout=file
            )
        try:
            usage = _watch(writer.pid, seconds)
        finally:
            writer.kill()
            writer.wait()
    cpu_s, children_s, facts = usage
    [read] = [each for each in facts["files"] if each["path"] == str(path)]
    share = read["skipped_bytes"] / max(1, read["skipped_bytes"] + read["bytes_read"])
    grown_mib = (_rss_kib() - rss_before) / 1024
    print(
        f"{name:26} {1000 * (cpu_s + children_s) / seconds:5.2f} ms  "
        f"{1000 * cpu_s / seconds:8.2f} ms {share:10.1%} {grown_mib:8.2f} MiB"
    )


def _watch(pid: int, seconds: float) -> tuple[float, float, dict[str, list[dict[str, int]]]]:
    stat = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    assert stat is not None
    members = [Member(pid, stat.starttime, stat.ppid, stat.comm, 0, "rank", pid)]
    collector = JobLog()
    root = Path("/proc")
    collector.open(Context(root, root, lambda: members, tuple, tuple, lambda _: ("none", None)))
    _tick(collector, 3)  # the parsers are loaded and the file is found
    own_s, children_s = time.process_time(), _children_s()
    _tick(collector, seconds)
    own_s, children_s = time.process_time() - own_s, _children_s() - children_s
    facts: dict[str, list[dict[str, int]]] = collector.facts()  # type: ignore[assignment]
    collector.close()
    return own_s, children_s, facts


def _tick(collector: JobLog, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        collector.collect(Tick(time.time_ns(), time.monotonic_ns(), None))
        time.sleep(1.0)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rss_kib() -> int:
    text = Path("/proc/self/status").read_text()
    return int(text[text.find("VmRSS:") :].split()[1])


if __name__ == "__main__":
    if asked := os.environ.get("JOB_LOG_COST"):
        name, rate, noise = asked.split("|")
        one(name, float(rate), int(noise), float(sys.argv[2]))
    else:
        main()
