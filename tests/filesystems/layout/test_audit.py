"""Audits of whole trees: what is counted, what is left out, and that nothing leads outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from slurm_io.filesystems.layout import tally as tally_module
from slurm_io.filesystems.layout.audit import Result, audit
from slurm_io.filesystems.layout.audit_report import as_json, as_text
from slurm_io.filesystems.layout.osts import OstSet
from slurm_io.filesystems.layout.policy import GIB, Thresholds, Use, judge_file
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.tally import Counts, Kinds, Tally
from tests.filesystems.layout.layout_tree import put, striped
from tests.filesystems.layout.lov_maker import (
    INIT,
    MDT,
    RAID0,
    RELEASED,
    STALE,
    Part,
    composite,
    plain,
)

pytestmark = pytest.mark.root
FEW = Thresholds(many_small_files=3)


def look(root: Path, **more: object) -> Result:
    return audit(Question(str(root), **{"readers": 8, **more}))  # type: ignore[arg-type]


def codes(result: Result) -> list[str]:
    return sorted(finding.code for finding in result.findings)


def test_counts_of_a_small_tree(tree: Path) -> None:
    put(tree / "a/large", striped(1), 20 * GIB)
    put(tree / "a/b/good", striped(8), 20 * GIB)
    put(tree / "small", striped(2), 1000)
    put(tree / "dom", plain(Part(count=0, pattern=MDT)), 100)
    put(tree / "gone", plain(Part(count=4, pattern=RAID0 | RELEASED)), GIB)
    (tree / "bare").touch()
    (tree / "link").symlink_to("small")
    os.mkfifo(tree / "pipe")
    result = look(tree)
    tally = result.tally
    assert (tally.files, tally.layouts, tally.without_layout) == (6, 5, 1)
    assert (tally.directories, tally.others, tally.on_mdt, tally.small_wide) == (3, 2, 1, 1)
    assert tally.size_bytes == 41 * GIB + 1100
    assert codes(result) == ["narrow", "released"]
    assert tally.ost_objects == {0: 3, 1: 2} | dict.fromkeys(range(2, 8), 1)
    assert tally.ost_bytes[0] == 20 * GIB + 20 * GIB // 8 + 1000
    narrow = next(each for each in result.findings if each.code == "narrow")
    assert narrow.commands == (f"lfs migrate -c 8 {tree}/a/large",)


def test_many_small_files_with_stripes(tree: Path) -> None:
    for number in range(4):
        put(tree / f"d/{number}", striped(2), 10)
    result = look(tree, thresholds=FEW)
    assert codes(result) == ["small-wide"]
    assert result.tally.small_wide_folders.largest(1) == [(f"{tree}/d/", 4)]
    (tree / "d/0").unlink()
    assert look(tree, thresholds=FEW).findings == ()


def test_directory_defaults_are_counted(tree: Path) -> None:
    put(tree / "f", striped(1))
    (tree / "d").mkdir()
    os.setxattr(tree / "d", "trusted.lov", plain(Part(count=-1, size=4 << 20)))
    assert look(tree).tally.defaults.counts == {
        "the file system's default": 1,
        "all OSTs x 4 MiB": 1,
    }


def test_imbalance_counts_osts_that_hold_nothing(tree: Path) -> None:
    for number in range(90):
        put(tree / str(number), striped(1), 1 << 20)
    osts = OstSet(frozenset(range(4)), {}, "test")
    assert codes(look(tree, osts=osts)) == ["imbalance"]
    assert codes(look(tree)) == [], "one OST only: nothing to compare with"


def test_worst_are_kept_all_are_counted(tree: Path) -> None:
    for number in range(30):
        put(tree / str(number), striped(1), (20 + number) * GIB)
    result = look(tree, keep=5)
    assert len(result.findings) == 5
    assert result.tally.broken["narrow"].count == 30
    assert [each.facts["size_bytes"] // GIB for each in result.findings] == [49, 48, 47, 46, 45]


def test_damaged_layouts_are_counted_and_named(tree: Path) -> None:
    put(tree / "good", striped(1))
    put(tree / "bad\n", striped(1)[:-1])
    result = look(tree)
    assert (result.tally.layouts, result.tally.errors.total()) == (1, 1)
    assert "'" in as_text(Question(str(tree), 8), result) and "bad\\n" in as_text(
        Question(str(tree), 8), result
    )


HOSTILE = ["new\nline", "\udcff\udcfe", "-c -1", "$(reboot)", "x" * 255, "é", "\x1b[2J", " ",
           "\u202egnp.exe", "a\n    lfs rm_everything /", "`id`;'\"\\", "!!\n'!1", "\u2028", "\r",
           "~", "*", "#", "\udce2\udc82\n", "\x9b2J", "=cmd", "[0-9]"]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_hostile_names_reach_neither_terminal_nor_shell_raw(tree: Path) -> None:
    for name in HOSTILE:
        put(tree / "d" / name, striped(1), 20 * GIB)
    question = Question(str(tree), 8, keep=100)
    result = audit(question)
    assert result.tally.broken["narrow"].count == len(HOSTILE)
    text = as_text(question, result)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("\n    lfs migrate") == len(HOSTILE)
    text.encode()
    assert _paths_a_shell_would_pass(text) == {os.fsencode(tree / "d" / name) for name in HOSTILE}
    assert len(as_json(question, result)["findings"]) == len(HOSTILE)


def _paths_a_shell_would_pass(text: str) -> set[bytes]:
    """Run the printed commands, with a function in the place of lfs."""
    commands = [line for line in text.split("\n") if line.startswith("    lfs migrate ")]
    script = "lfs() { printf '%s\\0' \"${@:4}\"; }\n" + "\n".join(commands)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=60)
    return set(done.stdout.split(b"\0")[:-1])


def test_links_lead_nowhere(tree: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside/f", striped(1), 20 * GIB)
    put(tree / "f", striped(1))
    (tree / "out").symlink_to(tmp_path / "outside")
    (tree / "loop").symlink_to(".")
    (tree / "file").symlink_to(tmp_path / "outside/f")
    result = look(tree)
    assert (result.tally.files, result.tally.others, codes(result)) == (1, 3, [])


def test_folder_swapped_for_a_link_is_refused(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "secret/f", striped(1), 20 * GIB)
    put(tree / "f", striped(1))
    (tree / "d").mkdir()
    scandir = os.scandir

    def swap(path: object) -> object:
        found = scandir(path)  # type: ignore[call-overload]
        if (tree / "d").is_dir() and not (tree / "d").is_symlink():
            entries = list(found)
            (tree / "d").rmdir()
            (tree / "d").symlink_to(tmp_path / "secret")
            return _Entries(entries)
        return found

    monkeypatch.setattr("slurm_io.filesystems.layout.walk.os.scandir", swap)
    result = look(tree)
    assert result.tally.files == 1
    assert list(result.tally.errors.examples.values()) == [[f"{tree}/d"]]


class _Entries(list):  # type: ignore[type-arg]
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        pass


def test_deep_tree_beyond_path_max(tree: Path) -> None:
    here = os.open(tree, os.O_RDONLY)
    try:
        for _ in range(25):
            os.mkdir("d" * 250, dir_fd=here)
            below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        path = f"/proc/self/fd/{here}/f"
        put(Path(path), striped(1))
    finally:
        os.close(here)
    assert look(tree).tally.layouts == 1


def test_single_file(tree: Path) -> None:
    path = put(tree / "f", striped(1), 20 * GIB)
    assert codes(look(path)) == ["narrow"]


def test_sample_looks_at_every_nth_file(tree: Path) -> None:
    for number in range(10):
        put(tree / str(number), striped(1))
    tally = look(tree, sample_every=5).tally
    assert (tally.files, tally.layouts, tally.skipped) == (10, 2, 8)


def test_deadline_cuts_and_says_so(tree: Path) -> None:
    put(tree / "d/f", striped(1))
    result = look(tree, deadline_s=time.monotonic() - 1)
    assert result.tally.files == 0 and result.cut is not None


def test_not_lustre(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    tally = look(tmp_path).tally
    assert tally.layouts == 0 and tally.files == 1


def test_several_processes_see_the_same(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        put(tree / f"d{number % 7}/e/{number}", striped(1 + number % 3), number * GIB)
    one = look(tree)
    two = look(tree, processes=2)
    assert two.tally.histogram == one.tally.histogram
    assert two.tally.ost_bytes == one.tally.ost_bytes
    assert two.tally.ost_objects == one.tally.ost_objects
    assert sorted(two.findings, key=str) == sorted(one.findings, key=str)


def test_quick_judgement_is_the_policy(tree: Path) -> None:
    layouts = [
        striped(1),
        striped(3),
        composite(
            [
                Part(osts=tuple(range(8)), count=8, end=GIB),
                Part(osts=(9,), count=1, start=GIB, identity=2),
            ]
        ),
        composite(
            [
                Part(osts=(1, 2, 3, 4), count=4, identity=0x10001, flags=INIT | STALE),
                Part(osts=(5,), count=1, identity=0x20002, pool="archive"),
            ],
            mirrors=2,
        ),
    ]
    from slurm_io.filesystems.layout.lov import parse_lov

    for number, data in enumerate(layouts):
        for size in (1, GIB - 1, GIB, 10 * GIB, 100 * GIB):
            path = put(tree / f"{number}-{size}", data, size)
            want = judge_file(str(path), size, parse_lov(data), 8)
            assert sorted(look(path).findings, key=str) == sorted(want, key=str)


def test_memory_of_a_tally_is_bounded() -> None:
    kinds, counts = Kinds(), Counts()
    for number in range(10_000):
        kinds.add(f"word {number}", "x" * 100)
        counts.add(f"folder {number}", 1)
    assert len(kinds.counts) <= tally_module.MOST_KINDS + 1
    assert kinds.total() == 10_000
    assert len(counts.counts) <= 2 * tally_module.MOST_KINDS
    merged = Tally(Use(8))
    merged.errors.merge(kinds)
    assert merged.errors.total() == 10_000


def test_large_attributes_are_read_whole_and_errors_are_the_same(tree: Path) -> None:
    for number in range(3):
        put(tree / f"a{number}", striped(20), 10)
        put(tree / f"b{number}", striped(120), 10)  # more than the buffer of one call
        put(tree / f"c{number}", striped(1), 10)
        (tree / f"d{number}").touch()
    tally = look(tree).tally
    assert (tally.layouts, tally.without_layout, tally.errors.total()) == (9, 3, 0)
    tally.settle()
    assert tally.ost_objects[0] == 9 and tally.ost_objects[119] == 3
