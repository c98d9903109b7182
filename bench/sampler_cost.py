"""What one sampler costs beside 8 ranks and 64 loader workers.

    python -m bench.sampler_cost [--seconds 20] [--warm-up 25] [--threads 2]

The ranks are plain processes with a ring that grows by ten batches a second; the workers wait for
a pipe or a lock or read a file, each with as many waiting threads as asked for. Prints CPU
milliseconds a second (the warm-up left out), peak RSS, rows and bytes.
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

from slurm_io.model import JobIdentity, SamplerSpec

_FAKE_RANK = """
import os, subprocess, sys, threading, time
from pathlib import Path
from tests.sampler.ring_maker import RingMaker
threads, workers = int(sys.argv[2]), int(sys.argv[3])
never = threading.Event()
for _ in range(threads):
    threading.Thread(target=never.wait, daemon=True).start()
ring = RingMaker(Path(sys.argv[1]), n_records=16384, greeting={"rank": int(sys.argv[4])})
for number in range(workers):
    if os.fork() == 0:
        for _ in range(threads):
            threading.Thread(target=never.wait, daemon=True).start()
        reader, writer = os.pipe()
        if number % 4 == 0:
            os.read(reader, 1)
        if number % 4 == 1:
            never.wait()
        with open(sys.executable, "rb", buffering=0) as file:
            while os.getppid() > 1:
                file.seek(0)
                file.read(65536)
                time.sleep(0.02)
        os._exit(0)
while True:
    ring.phase(1, 0)
    began = time.monotonic_ns()
    time.sleep(0.05)
    ring.batch(began, time.monotonic_ns())
    ring.phase(0)
    time.sleep(0.05)
"""


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=25.0, help="the governor settles in it")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=0.003)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> None:
    """Start the job, sample it, print."""
    spool, rings = folder / "spool", folder / "rings"
    spool.mkdir()
    rings.mkdir()
    crew = subprocess.Popen(
        [sys.executable, "-c", _crew_program(options, rings)], start_new_session=True
    )
    time.sleep(3)
    spec = SamplerSpec(
        job=JobIdentity("bench", "1", 0, "bench", os.getuid()), node="here", mode="user",
        spool=str(spool), ring_dir=str(rings), root_pid=crew.pid, waits_hz=options.hz,
        budget_share=options.budget,
    )  # fmt: skip
    (spool / "sampler.json").write_text(json.dumps(spec.to_dict()))
    sampler = subprocess.Popen([sys.executable, "-m", "slurm_io.sampler", str(spool)])
    try:
        time.sleep(options.warm_up)
        before_s = cpu_s(sampler.pid)
        time.sleep(options.seconds)
        used_s = cpu_s(sampler.pid) - before_s
        sampler.send_signal(signal.SIGTERM)
        sampler.wait(10)
    finally:
        sampler.kill()
        os.killpg(crew.pid, signal.SIGKILL)
        crew.wait()
    print(f"cpu           {1000 * used_s / options.seconds:.2f} ms/s over {options.seconds:g} s")
    print_figures(spool)


def _crew_program(options: argparse.Namespace, rings: Path) -> str:
    per_rank = options.workers // options.ranks
    return (
        "import subprocess, sys, time\n"
        f"program = {_FAKE_RANK!r}\n"
        f"ranks = [subprocess.Popen([sys.executable, '-c', program, {str(rings)!r}, "
        f"'{options.threads}', '{per_rank}', str(r)]) for r in range({options.ranks})]\n"
        "time.sleep(3600)\n"
    )


def cpu_s(pid: int) -> float:
    """User and system time of a process and the children it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def print_figures(spool: Path) -> None:
    """What self.json and the streams say."""
    own = json.loads((spool / "self.json").read_text())
    meta = json.loads((spool / "meta.json").read_text())
    print(f"rss peak      {own['rss_peak_bytes'] / 2**20:.1f} MiB")
    print(f"passes        {own['waits_passes']}, {own['waits_hz']} Hz at the end")
    print(f"seen          {len(meta['ranks'])} ranks, {meta['workers_seen']} workers")
    for name, use in own["collectors"].items():
        runs = max(1, use["runs"])
        print(f"  {name:13} {use['runs']:5} runs {1e6 * use['cpu_s'] / runs:8.0f} µs each")
    for table, rows in own["rows"].items():
        size = sum(path.stat().st_size for path in spool.glob(f"{table}*.arrows"))
        print(f"  {table:13} {rows:6} rows {size / max(1, rows):8.0f} bytes each")
    print(f"governor      level {own['governor']['level']}: {own['governor']['changes']}")


if __name__ == "__main__":
    main()
