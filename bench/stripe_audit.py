"""Files a second of the stripe audit over trees whose files carry ``trusted.lov``.

Beside it, on the same trees in the same run: the bare system calls it cannot do without
(os.scandir, then getxattr and lstat of each file), `find` (which reads no attribute) and
`getfattr -R`. CPU time of one process, the best of a few rounds: other load moves it little, but a
shared core still does, hence the ratios. Trees lie on tmpfs and, where the block lab runs, on ext4.

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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slurm_io.filesystems.layout.audit import Question, audit
from tests.filesystems.layout.lov_maker import END, INIT, Part, composite, plain
from tests.labs.block import BlockLab, block_lab_missing

BUDGET_FILES_S = 100_000
PER_FOLDER = 1000
SHM = Path("/dev/shm")
MIB = 1 << 20


def layouts(kind: str) -> list[bytes]:
    """64 layouts of one kind: objects differ, shapes do not."""
    found = []
    for seed in range(64):
        narrow = plain(Part(osts=(seed,), count=1), seed=seed)
        wide = plain(Part(osts=tuple(range(seed, seed + 4)), count=4), seed=seed)
        parts = [
            Part(osts=(seed,), count=1, end=256 * MIB),
            Part(count=4, flags=0, start=256 * MIB, end=16 << 30, identity=2),
            Part(count=-1, flags=0, start=16 << 30, end=END, identity=3),
        ]
        assert parts[0].flags == INIT
        pfl = composite(parts, seed=seed)
        found.append({"plain": narrow, "wide": wide, "pfl": pfl}.get(kind, b""))
        if kind == "mixed":
            found[-1] = (narrow, wide, pfl)[seed % 3]
    return found


def make_tree(root: Path, files: int, kind: str) -> None:
    """`files` empty files, 1000 in a folder, each with a layout."""
    made = layouts(kind)
    for number in range(files):
        folder = root / f"d{number // PER_FOLDER:04}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        path = f"{folder}/shard-{number:08}.bin"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.setxattr(path, "trusted.lov", made[number % len(made)])


def bare(root: Path) -> int:
    """The system calls alone."""
    files = 0
    here = os.open(".", os.O_RDONLY)
    for folder in os.scandir(root):
        os.chdir(folder.path)
        with os.scandir(".") as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    os.getxattr(entry.name, "trusted.lov", follow_symlinks=False)
                    os.lstat(entry.name)
                    files += 1
    os.fchdir(here)
    os.close(here)
    return files


def ours(root: Path) -> int:
    """The audit."""
    return audit(Question(str(root), 8)).tally.layouts


def tool(name: str, *arguments: str) -> Callable[[Path], int] | None:
    """A program over the tree, None when it is not installed."""
    program = shutil.which(name)
    if program is None:
        return None

    def run(root: Path) -> int:
        words = [str(root) if word == "ROOT" else word for word in arguments]
        subprocess.run([program, *words], stdout=subprocess.DEVNULL, check=True, timeout=600)
        return 0

    return run


def contenders() -> dict[str, Callable[[Path], int] | None]:
    """Name -> what to time."""
    return {
        "audit": ours,
        "bare scandir+getxattr+lstat": bare,
        "find -printf size": tool("find", "ROOT", "-type", "f", "-printf", "%s %p\\n"),
        "getfattr -R": tool("getfattr", "-R", "-d", "-m", "trusted.lov", "-e", "hex", "ROOT"),
    }


def cpu_s(work: Callable[[Path], int], root: Path, files: int, rounds: int) -> float:
    """CPU seconds of the best round, children included."""
    best = float("inf")
    for _ in range(rounds):
        began = _used_s()
        seen = work(root)
        best = min(best, _used_s() - began)
        assert seen in (0, files), f"{seen} of {files} files"
    return best


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


def measure(place: Path, files: int, kind: str, rounds: int) -> dict[str, float]:
    """Files a second of each contender over one new tree."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        make_tree(Path(name), files, kind)
        return {
            title: files / cpu_s(work, Path(name), files, rounds)
            for title, work in contenders().items()
            if work is not None
        }


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", nargs="+", default=["plain", "pfl"],
                        choices=["plain", "wide", "pfl", "mixed"])  # fmt: skip
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
                    results.append({"place": place, "kind": kind, "files": files, **rates})
                    if not options.json:
                        _print(place, kind, files, rates)
    if options.json:
        print(json.dumps(results, indent=2))


def _print(place: str, kind: str, files: int, rates: dict[str, float]) -> None:
    print(f"{place}, {kind}, {files} files")
    for title, rate in rates.items():
        against = f"{rates['audit'] / rate:.2f} x" if title != "audit" else ""
        budget = f"{rate / BUDGET_FILES_S:.2f} of the budget" if title == "audit" else ""
        print(f"  {title:<28}{rate:>10.0f} files/s CPU  {against}{budget}")


if __name__ == "__main__":
    main()
