"""Files a second of the stripe audit over trees whose files carry ``trusted.lov``.

Beside it, on the same trees in the same run: a bare loop of the system calls it cannot do without
(os.scandir, then os.getxattr and os.lstat of each file), the same with the audit's own way to call
getxattr (what is left between it and the audit is parsing, judging and counting), `find` (which
reads no attribute) and `getfattr -R`. Files have sizes, as real ones do (they are sparse).

Figures are files a second of CPU time, that is, of one core: other load moves CPU time little, but
a shared core still does, hence the ratios. The best of a few rounds. The rows of several processes
add the CPU time of all and say beside it how long it took by the clock. Trees lie on tmpfs and,
where the block lab runs, on ext4: both answer from memory, so there the audit itself is the limit;
on Lustre the metadata server is.

    python bench/stripe_audit.py [--files 20000 200000] [--rounds 3] [--kind plain pfl] [--json]

Budget: 100,000 files a second and core. Needs root (trusted. attributes).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slurm_io.filesystems.layout.attribute import AttributeReader
from slurm_io.filesystems.layout.audit import audit
from slurm_io.filesystems.layout.question import Question
from tests.filesystems.layout.lov_maker import END, Part, composite, plain
from tests.labs.block import BlockLab, block_lab_missing

AUDIT = "audit"
BUDGET_FILES_S = 100_000
PER_FOLDER = 1000
SHM = Path("/dev/shm")
MIB = 1 << 20


KINDS = {
    "plain": "one OST each",
    "wide": "four OSTs each",
    "pool": "one OST each, in a pool (v3)",
    "pfl": "three components, the first in use",
    "pfl-grown": "three components, two in use",
    "mirror": "two mirrors of two OSTs",
    "mixed": "all of these by turns",
    "misfit": "2 GiB on one OST each: every file is a finding",
    "folders": "one OST each, 10 files in a folder",
}


def layouts(kind: str) -> list[bytes]:
    """64 layouts of one kind: objects differ, shapes do not."""
    return [_layout(kind, seed) for seed in range(64)]


def _layout(kind: str, seed: int) -> bytes:
    if kind == "mixed":
        kind = ("plain", "wide", "pool", "pfl", "pfl-grown", "mirror")[seed % 6]
    four = tuple(range(seed, seed + 4))
    if kind == "wide":
        return plain(Part(osts=four, count=4), seed=seed)
    if kind == "pool":
        return plain(Part(osts=(seed,), count=1, pool="flash"), seed=seed)
    if kind == "mirror":
        both = [Part(osts=four[:2], count=2, identity=0x10001),
                Part(osts=four[2:], count=2, identity=0x20002)]  # fmt: skip
        return composite(both, mirrors=2, state=1, seed=seed)
    if kind.startswith("pfl"):
        second = Part(osts=four, count=4) if kind == "pfl-grown" else Part(count=4, flags=0)
        return composite(
            [
                Part(osts=(seed,), count=1, end=16 * MIB),
                replace(second, start=16 * MIB, end=16 << 30, identity=2),
                Part(count=-1, flags=0, start=16 << 30, end=END, identity=3),
            ],
            seed=seed,
        )
    return plain(Part(osts=(seed,), count=1), seed=seed)


def size_bytes(kind: str, number: int) -> int:
    """Shards of 8 to 40 MB, small ones for `pfl` (in the first component)."""
    if kind == "misfit":
        return 2 << 30
    if kind == "pfl":
        return 1 + number % 16 * MIB
    return 8_000_000 + number % 32 * 1_000_000


def make_tree(root: Path, files: int, kind: str) -> None:
    """`files` sparse files, 1000 in a folder, each with a layout."""
    made, per_folder = layouts(kind), 10 if kind == "folders" else PER_FOLDER
    for number in range(files):
        folder = root / f"e{number // 100_000}" / f"d{number // per_folder:05}"
        if number % per_folder == 0:
            folder.mkdir(parents=True)
        path = f"{folder}/shard-{number:08}.bin"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        os.truncate(descriptor, size_bytes(kind, number))
        os.close(descriptor)
        os.setxattr(path, "trusted.lov", made[number % len(made)])


def bare(root: Path) -> int:
    """The system calls alone."""
    return _loop(root, lambda name: os.getxattr(name, "trusted.lov", follow_symlinks=False))


def bare_fitting(root: Path) -> int:
    """The same, with the audit's call where Python's own clears 64 KiB for each file."""
    some = next(entry.path for entry in os.scandir(next(_folders(root))))
    likely_bytes = len(os.getxattr(some, "trusted.lov"))
    return _loop(root, AttributeReader("trusted.lov").way(likely_bytes))


def _loop(root: Path, read: Callable[[bytes], bytes]) -> int:
    files = 0
    here = os.open(".", os.O_RDONLY)
    for folder in _folders(root):
        os.chdir(folder)
        with os.scandir(b".") as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    read(entry.name)
                    os.lstat(entry.name)
                    files += 1
    os.fchdir(here)
    os.close(here)
    return files


def _folders(root: Path) -> Iterator[str]:
    for above in os.scandir(root):
        yield from (folder.path for folder in os.scandir(above.path))


def ours(root: Path) -> int:
    """The audit."""
    return audit(Question(str(root), 8)).tally.layouts


def ours_in_processes(root: Path) -> int:
    """The audit on all cores."""
    return audit(Question(str(root), 8, processes=cores())).tally.layouts


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def tool(name: str, *arguments: str) -> Callable[[Path], int] | None:
    """A program over the tree, None when it is not installed."""
    program = shutil.which(name)
    if program is None:
        return None

    def run(root: Path) -> int:
        words = [str(root) if word == "ROOT" else word for word in arguments]
        subprocess.run(
            [program, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=600,
        )
        return 0

    return run


def contenders() -> dict[str, Callable[[Path], int] | None]:
    """Name -> what to time."""
    return {
        AUDIT: ours,
        f"audit --processes {cores()}": ours_in_processes,
        "bare scandir+getxattr+lstat": bare,
        "the same, the audit's getxattr": bare_fitting,
        "find -printf size": tool("find", "ROOT", "-type", "f", "-printf", "%s %p\\n"),
        "getfattr -R": tool("getfattr", "-R", "-d", "-m", "trusted.lov", "-e", "hex", "ROOT"),
    }


@dataclass(frozen=True)
class Rate:
    """Files a second: of CPU time, and by the clock, each in its best round."""

    cpu: float
    clock: float


def rate(work: Callable[[Path], int], root: Path, files: int, rounds: int) -> Rate:
    """CPU time of child processes counts too."""
    cpu_s = clock_s = float("inf")
    for _ in range(rounds):
        used_s, began_s = _used_s(), time.monotonic()
        seen = work(root)
        cpu_s = min(cpu_s, _used_s() - used_s)
        clock_s = min(clock_s, time.monotonic() - began_s)
        assert seen in (0, files), f"{seen} of {files} files"
    return Rate(files / cpu_s, files / clock_s)


def _used_s() -> float:
    own = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime


@contextlib.contextmanager
def places() -> Iterator[dict[str, Path]]:
    """Where trees can be made; all of it is gone afterwards."""
    with contextlib.ExitStack() as undo:
        found: dict[str, Path] = {}
        if SHM.is_dir():
            found["tmpfs"] = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=SHM)))
        if block_lab_missing() is None:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
            lab = undo.enter_context(BlockLab(folder, "ext4", size_bytes=4 << 30))
            found["ext4"] = lab.mountpoint
        yield found


def measure(place: Path, files: int, kind: str, rounds: int) -> dict[str, Rate]:
    """Each contender over one new tree."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        make_tree(Path(name), files, kind)
        return {
            title: rate(work, Path(name), files, rounds)
            for title, work in contenders().items()
            if work is not None
        }


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", nargs="+", default=["plain", "pfl"], choices=list(KINDS),
                        help="; ".join(f"{k}: {words}" for k, words in KINDS.items()))  # fmt: skip
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root: trusted. attributes")
    results = []
    with places() as found:
        for place, folder in found.items():
            for kind in options.kind:
                for files in options.files:
                    rates = measure(folder, files, kind, options.rounds)
                    each = {title: asdict(rate) for title, rate in rates.items()}
                    results.append({"place": place, "kind": kind, "files": files, "rates": each})
                    if not options.json:
                        _print(place, kind, files, rates)
    if options.json:
        print(json.dumps({"budget_files_s": BUDGET_FILES_S, "results": results}, indent=2))


def _print(place: str, kind: str, files: int, rates: dict[str, Rate]) -> None:
    audit_rate = rates[AUDIT].cpu
    print(f"{place}, {kind} ({KINDS[kind]}), {files} files")
    print(f"  {'':<32}{'files/s of CPU':>15}{'by the clock':>14}   audit is")
    for title, found in rates.items():
        told = (
            f"{audit_rate / BUDGET_FILES_S:.2f} x the budget"
            if title == AUDIT
            else f"{audit_rate / found.cpu:.2f} x of it"
        )
        print(f"  {title:<32}{found.cpu:>15.0f}{found.clock:>14.0f}   {told}", flush=True)


if __name__ == "__main__":
    main()
