"""Trees made by somebody who means harm: loops, swaps, depth, numbers, and layouts that lie."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_io.filesystems.layout.audit import Result, audit
from slurm_io.filesystems.layout.audit_report import as_json, as_text
from slurm_io.filesystems.layout.largest import Sample, sample_tree
from slurm_io.filesystems.layout.policy import GIB
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.trail import MOST_LEVELS
from tests.filesystems.layout.layout_tree import ATTRIBUTE, put, striped
from tests.filesystems.layout.lov_maker import Part, composite, foreign, plain

pytestmark = pytest.mark.root


def look(root: Path, **more: object) -> Result:
    return audit(Question(str(root), **{"readers": 8, **more}))  # type: ignore[arg-type]


def told(root: Path, result: Result) -> list[str]:
    lines = as_text(Question(str(root), 8), result).split("\n")
    assert all(line.isprintable() for line in lines)
    return lines


# Layouts that lie.

TWO = composite(
    [
        Part(osts=(1,), count=1, end=1 << 20),
        Part(osts=(2, 3), count=2, start=1 << 20, identity=2),
    ]
)
LIES = {
    "65535 stripes": plain(Part(osts=(1,), count=0xFFFF)),
    "65535 components": TWO[:14] + b"\xff\xff" + TWO[16:],
    "a component of 4 GiB": TWO[:60] + b"\xff" * 4 + TWO[64:],
    "extents that overlap": composite(
        [
            Part(osts=(1,), count=1, end=1 << 20),
            Part(osts=(2,), count=1, start=1 << 19, identity=2),
        ]
    ),
    "a foreign value of 4 GiB": struct.pack("<IIII", 0x0BD70BD0, 0xFFFFFFFF, 4, 0) + b"x" * 20,
    "a directory's layout": struct.pack("<IIII", 0x0CD30CD0, 0xFFFFFFFF, 0, 0) + bytes(32),
    "a magic of tomorrow": b"\xd0\x0b\xff\x0b" + bytes(60),
    "an escape sequence": b"\x1b[2J\x1b]0;owned\x07",
    "nothing": b"",
}


def test_layouts_that_lie_are_named_and_stop_nothing(tree: Path) -> None:
    for number, data in enumerate(LIES.values()):
        put(tree / f"{number}", data, 20 * GIB)
        put(tree / f"{number}.good", striped(4), 20 * GIB)
    result = look(tree)
    assert (result.tally.files, result.tally.layouts) == (2 * len(LIES), len(LIES))
    assert result.tally.errors.total() == len(LIES)
    assert result.findings == ()
    assert sum("layout: " in line for line in told(tree, result)) == len(LIES)


def test_largest_attribute_of_noise_and_of_components(room: Path) -> None:
    """64 KiB hold hundreds of components."""
    count = 65536 // (48 + 32) - 1
    sixty_four = [
        Part(count=1, flags=0x10, osts=(n,), start=n << 20, end=(n + 1) << 20, identity=n + 1)
        for n in range(count * 80 // 104)
    ]
    many = composite([*sixty_four[:-1], _open_ended(sixty_four[-1])])
    put(room / "many", many, 20 * GIB)
    put(room / "noise", bytes(range(256)) * 255, 20 * GIB)
    os.setxattr(room, ATTRIBUTE, composite([_as_template(part) for part in sixty_four]))
    result = look(room)
    assert (result.tally.layouts, result.tally.errors.total()) == (1, 1)
    (words,) = result.tally.defaults.counts
    assert "more components" in words
    assert max(len(line) for line in told(room, result)) < 500


def _open_ended(part: Part) -> Part:
    return Part(part.osts, part.count, start=part.start, identity=part.identity)


def _as_template(part: Part) -> Part:
    return Part(count=1, flags=0, start=part.start, end=part.end, identity=0)


# Folders that lead elsewhere.


def test_folder_swapped_for_a_link_all_the_time_leads_nowhere(tree: Path, tmp_path: Path) -> None:
    """A user swaps a folder for a link to another place while root walks."""
    for number in range(20):
        put(tmp_path / f"secret/{number}/f", striped(7), 20 * GIB)
        put(tree / f"d/{number}/f", striped(1))
    (tree / "link").symlink_to(tmp_path / "secret")
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, tree / "d", tree / "link"])
    seen: set[int] = set()
    try:
        for number in range(5000):
            result = look(tree)
            assert result.tally.ost_objects.keys() <= {0} and result.findings == ()
            seen.add(result.tally.files)
            if number >= 300 and len(seen) > 1:
                break
    finally:
        swapper.kill()
        swapper.wait()
    assert len(seen) > 1, "a race that is always won proves nothing"


SWAP = """
import ctypes, os, sys
call, here, exchange = ctypes.CDLL(None).renameat2, -100, 2
some, other = map(os.fsencode, sys.argv[1:])
while call(here, some, here, other, exchange) == 0:
    pass
"""


def test_root_swapped_for_a_link_is_refused(tree: Path, tmp_path: Path) -> None:
    put(tree / "f", striped(1))
    (tmp_path / "link").symlink_to(tree)
    with pytest.raises(OSError, match="directory|symbolic"):
        look(tmp_path / "link")


@pytest.fixture
def bind() -> Iterator[Callable[[Path, Path], None]]:
    """Bind mounts, undone afterwards."""
    made: list[Path] = []

    def mount(what: Path, where: Path) -> None:
        done = subprocess.run(["mount", "--bind", what, where], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"bind mounts: {done.stderr.decode().strip()}")
        made.append(where)

    yield mount
    for where in reversed(made):
        subprocess.run(["umount", "--lazy", where], check=True)


def test_loop_by_a_bind_mount_is_left_out_and_told(
    tree: Path, bind: Callable[[Path, Path], None]
) -> None:
    """Of the same file system, so that its device number tells nothing."""
    put(tree / "a/f", striped(1), 20 * GIB)
    (tree / "a/loop").mkdir()
    bind(tree, tree / "a/loop")
    for processes in (1, 2):
        result = look(tree, processes=processes)
        assert (result.tally.files, len(result.findings)) == (1, 1)
        (word,) = result.tally.errors.counts
        assert word == "folder: something else is mounted here: left out"
        assert result.tally.errors.examples[word] == [f"{tree}/a/loop"]


def test_other_file_system_is_left_out_and_told(tree: Path) -> None:
    put(tree / "f", striped(1))
    (tree / "proc").mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", tree / "proc"], check=False)
    if done.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        put(tree / "proc/g", striped(1))
        result = look(tree)
    finally:
        subprocess.run(["umount", "--lazy", tree / "proc"], check=True)
    assert result.tally.files == 1 and result.tally.errors.total() == 1


# Depth and length.


def _nest(folder: Path, name: str, levels: int, layout: bytes) -> None:
    """Folders below one another, as deep as one likes, with a large file in the last."""
    here = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(levels):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        put(Path(f"/proc/self/fd/{here}/f"), layout, 20 * GIB)
    finally:
        os.close(here)


def test_path_of_ten_thousand_characters_is_audited_and_written_out(tree: Path) -> None:
    _nest(tree, "d" * 249 + "\n", 41, striped(1))
    result = look(tree)
    assert (result.tally.layouts, result.tally.errors.total()) == (1, 0)
    (command,) = result.findings[0].commands
    assert len(command) > 10_000 and command.isprintable() and command.endswith("/f'")
    assert told(tree, result)
    assert len(as_json(Question(str(tree), 8), result)["findings"]) == 1


def test_what_is_nested_too_deep_is_left_out_and_told(tree: Path) -> None:
    put(tree / "f", striped(1))
    _nest(tree, "d", MOST_LEVELS + 50, striped(1))
    before = set(Path("/proc/self/fd").iterdir())
    result = look(tree)
    assert set(Path("/proc/self/fd").iterdir()) == before, "descriptors are left open"
    assert result.tally.files == 1
    assert list(result.tally.errors.counts) == [
        f"folder: nested deeper than {MOST_LEVELS} levels: left out"
    ]


# What changes while we walk.


def test_files_removed_while_a_folder_is_listed_are_no_errors(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def list_and_remove(folder: int | bytes) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        entries = list(scandir(folder))  # type: ignore[type-var]
        (tree / "gone").unlink(missing_ok=True)
        return contextlib.nullcontext(entries)  # type: ignore[arg-type]

    monkeypatch.setattr("slurm_io.filesystems.layout.walk.os.scandir", list_and_remove)
    put(tree / "stays", striped(1))
    put(tree / "gone", striped(1))
    result = look(tree)
    assert (result.tally.layouts, result.tally.errors.total()) == (1, 0)
    put(tree / "gone", striped(1))
    sample = sample_tree(str(tree), time.monotonic() + 20, Sample(1, 1, 1))
    assert (sample.files, sample.unreadable, sample.cut) == (1, 0, None)


def test_file_system_mounted_while_we_walk_is_left_out_too(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no table read before."""
    monkeypatch.setattr(
        "slurm_io.filesystems.layout.walk._mounts_below", lambda prefix: frozenset()
    )
    test_other_file_system_is_left_out_and_told(tree)


def test_foreign_layouts_are_counted_and_not_judged(tree: Path) -> None:
    put(tree / "f", foreign(b"s3://bucket/" + b"k" * 1000), 20 * GIB)
    result = look(tree)
    assert (result.tally.layouts, result.findings) == (1, ())
