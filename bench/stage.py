"""What staging costs beside the tools people use, on one disk.

``python bench/stage.py [--files N] [--kib K] [--large N] [--mib M] [--s3-mib M] [--disk DIR]``
makes a set of N files of K KiB and one of a few large files, and stages each

1. from a folder: ``dataset stage`` (copied, every file hashed from the medium, durable), its
   copying engine alone, ``cp -r``, ``rsync``, ``fpsync``, ``rclone``,
2. from one, two and four rsync daemons with a secret (``dataset serve``'s), beside one plain rsync,
3. from an S3 store on this machine (moto, in Python: it is the limit), beside ``s5cmd cp`` and
   ``rclone``; with a smaller set.

Everything reads from the disk that it writes to, and every job ends with its bytes on the disk
(``sync``): a node's copy that a power cut takes is none. Only the rows named ``stage`` have looked
at what they wrote. Figures are by the clock and by CPU time (children included; the daemons' own
connections too), each the least of the rounds, jobs in turns. A peer that is not installed is named
and left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.lab.file_peers import (
    Job,
    Scratch,
    in_turns,
    is_here,
    make_large,
    make_small,
    medium,
    show,
    show_load,
)
from bench.lab.stage_sets import STREAMS, Staging, local_tools, peers, rsync_from, upload
from slurm_io.staging.stage.model import SourceSpec
from slurm_io.staging.stage.s3_environment import program_environment
from slurm_io.staging.stage.s5cmd_program import program
from tests.labs.s3_server import S3Server

PEERS = (1, 2, 4)


def from_a_folder(it: Staging) -> dict[str, Job]:
    """A mount, or another disk."""
    source = SourceSpec("path", os.fspath(it.source), "folder")
    return {
        "stage, verified": it.whole([source]),
        "engine copy alone, not verified": it.engine_alone(source, "copy"),
        **local_tools(it),
    }


def show_peers(it: Staging, amount: float, unit: str, rounds: int) -> None:
    """One to four neighbours. All of them are this machine, so more share what one has."""
    with peers(it, max(PEERS)) as sources:
        jobs: dict[str, Job] = {
            f"stage from {count} peer(s), verified": it.whole(sources[:count]) for count in PEERS
        }
        jobs["engine rsync alone, 1 peer"] = it.engine_alone(sources[0], "rsync")
        jobs["one plain rsync -a, 1 peer"] = rsync_from(it, sources[0])
        show(in_turns(jobs, rounds, it.clear), amount, unit)


def show_store(it: Staging, amount: float, unit: str, rounds: int) -> None:
    """An object store near by."""
    with S3Server() as server:
        os.environ.update(server.environment)
        source = upload(it, server.client(), "bench")
        jobs: dict[str, Job] = {}
        for name in ("s5cmd", "boto"):
            jobs[f"stage, engine {name}, verified"] = it.whole([source], name)
        jobs["engine boto alone, not verified"] = it.engine_alone(source, "boto")
        s5cmd = program()
        if s5cmd:
            words = ["env", *_settings(), s5cmd, "--numworkers", "32", "cp", "s3://bench/*"]
            jobs["s5cmd cp"] = it.then_sync([*words, f"{it.target}/"])
        if is_here("rclone"):
            told = ["RCLONE_S3_PROVIDER=Other", "RCLONE_S3_ENV_AUTH=true"]
            told.append(f"RCLONE_S3_ENDPOINT={server.endpoint}")
            words = [
                "env",
                "-u",
                "AWS_CA_BUNDLE",
                *told,
                "rclone",
                "--config",
                "",
                "copy",
                f"--transfers={STREAMS}",
            ]
            words.append(":s3:bench")
            jobs["rclone copy (compares hashes)"] = it.then_sync([*words, it.target])
        show(in_turns(jobs, rounds, it.clear), amount, unit)


def _settings() -> list[str]:
    return [f"{name}={value}" for name, value in program_environment(os.environ).items()]


def main() -> int:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=4_000)
    parser.add_argument("--kib", type=int, default=16)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--mib", type=int, default=128, help="of each large file")
    parser.add_argument("--s3-mib", type=int, default=32, help="of each large object, 0 = no S3")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on a disk")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    show_load()
    with Scratch(given.disk) as folder:
        print(f"{given.files} files of {given.kib} KiB on {medium(folder)}, {STREAMS} streams")
        source = folder / "source"
        it = Staging(folder, source, make_small(source, given.files, given.kib << 10))
        amount, unit = given.files / 1000, "k files/s"
        show(in_turns(from_a_folder(it), given.rounds, it.clear), amount, unit)
        show_peers(it, amount, unit, given.rounds)
    with Scratch(given.disk) as folder:
        print(f"\n{given.large} files of {given.mib} MiB")
        source = folder / "source"
        it = Staging(folder, source, make_large(source, given.large, given.mib))
        amount, unit = given.large * given.mib * 2**20 / 1e9, "GB/s"
        show(in_turns(from_a_folder(it), given.rounds, it.clear), amount, unit)
        show_peers(it, amount, unit, given.rounds)
    if given.s3_mib:
        with Scratch(given.disk) as folder:
            print(f"\nS3: {given.large} objects of {given.s3_mib} MiB")
            source = folder / "source"
            it = Staging(folder, source, make_large(source, given.large, given.s3_mib))
            show_store(it, given.large * given.s3_mib * 2**20 / 1e9, "GB/s", given.rounds)
        with Scratch(given.disk) as folder:
            count = max(1, given.files // 20)
            print(f"\nS3: {count} objects of {given.kib} KiB")
            source = folder / "source"
            it = Staging(folder, source, make_small(source, count, given.kib << 10))
            show_store(it, count / 1000, "k files/s", given.rounds)
    show_load()
    return 0


if __name__ == "__main__":
    sys.exit(main())
