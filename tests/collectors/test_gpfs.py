"""The GPFS collector with stand-ins for mmpmon and mmdiag that print what the real ones printed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors import gpfs as module
from slurm_io.collectors.base import Availability
from slurm_io.collectors.gpfs import Gpfs
from slurm_io.filesystems.gpfs import commands
from tests.collectors.fake_host import SECOND_NS, context, rows_at, tick, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.filesystems.client_samples import sample

TWO = sample("gpfs/mmpmon_fs_io_s_two_fs.txt")
SCRATCH = mount_line(36, "/scratch", "gpfs", "/dev/scratch")
PROJECT = mount_line(37, "/project", "gpfs", "project")
MMPMON = f"""#!{sys.executable} -ISs
import os, sys, time
here = os.path.dirname(os.path.realpath(__file__))
assert sys.argv[1:] == ["-p"] and sys.stdin.read() == "fs_io_s\\n"
open(here + "/asked", "a").write("x")
if os.path.exists(here + "/hangs"):
    time.sleep(60)
if os.path.exists(here + "/fails"):
    sys.exit("mmpmon: Could not communicate with mmfsd.")
sys.stdout.write(open(here + "/answer").read())
"""
MMDIAG = f"""#!{sys.executable} -ISs
import os, sys
here = os.path.dirname(os.path.realpath(__file__))
if sys.argv[1:] == ["--waiters", "-Y"] and not os.path.exists(here + "/old"):
    sys.stdout.write(open(here + "/waiters_y").read())
elif sys.argv[1:] == ["--waiters"]:
    sys.stdout.write(open(here + "/waiters").read())
else:
    sys.exit("mmdiag: Incorrect option: -Y")
"""


class Node:
    def __init__(self, root: Path, mounts: str = SCRATCH + PROJECT) -> None:
        self.tools = root / "bin"
        write_tree(root, {"proc/self/mountinfo": ROOT + mounts})
        for name, text in {"mmpmon": MMPMON, "mmdiag": MMDIAG}.items():
            write_tree(root, {f"bin/{name}": text})
            (self.tools / name).chmod(0o755)
        write_tree(
            root,
            {
                "bin/answer": TWO,
                "bin/waiters": sample("gpfs/mmdiag_waiters_text.txt"),
                "bin/waiters_y": sample("gpfs/mmdiag_waiters_Y.txt"),
            },
        )
        self.gpfs = Gpfs()
        self.availability = self.gpfs.open(context(root))

    def answer(self, text: str) -> None:
        (self.tools / "answer").write_text(text)

    def asked(self) -> int:
        path = self.tools / "asked"
        return len(path.read_text()) if path.exists() else 0

    def ask(self, second: float) -> dict[tuple[str, str], dict[str, Any]]:
        """Put the question at `second`, and take all rows that come of it at the next second."""
        assert rows_at(self.gpfs, second) == []
        rows: list[dict[str, Any]] = []
        end_s = time.monotonic() + 20
        while self.gpfs._probes is not None and self.gpfs._probes.is_asking:
            assert time.monotonic() < end_s
            rows += rows_at(self.gpfs, second + 1)
            time.sleep(0.01)
        return {(row["mount"], row["op_class"]): row for row in rows}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Node]]:
    """Makes a node whose tools are the stand-ins and whose caller is root."""
    monkeypatch.setattr(commands, "TOOLS", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    made: list[Node] = []

    def make(**given: Any) -> Node:
        made.append(Node(tmp_path, **given))
        return made[-1]

    yield make
    for each in made:
        each.gpfs.close()


def test_without_a_mount_there_is_nothing_to_miss(node: Callable[..., Node]) -> None:
    assert node(mounts="").availability == Availability("absent", "no GPFS mount here")


def test_without_root_or_tools_it_is_off_with_the_reason(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    availability = node().availability
    assert availability.state == "off" and "root" in availability.reason
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(commands, "TOOLS", str(tmp_path / "nowhere"))
    availability = node().availability
    assert availability.state == "off" and "nowhere/mmpmon is not there" in availability.reason


def test_a_series_of_answers(node: Callable[..., Node]) -> None:
    gpfs = node()
    assert gpfs.availability == Availability("on")
    assert gpfs.ask(0) == {}
    later = TWO.replace("_br_ 205607400434", "_br_ 205607404530").replace(
        "_rdc_ 59420404", "_rdc_ 59420407"
    )
    gpfs.answer(later.replace("_oc_ 513", "_oc_ 520").replace("_cc_ 513", "_cc_ 514"))
    rows = gpfs.ask(10)
    assert rows.keys() == {("/scratch", "read"), ("/project", "meta")}
    read = rows["/scratch", "read"]
    assert (read["ops"], read["bytes"]) == (3, 4096)
    # Stamped with the moments of the questions.
    assert (read["mono_ns"], read["interval_ns"]) == (tick(10).mono_ns, 10 * SECOND_NS)
    assert (read["fstype"], read["source"]) == ("gpfs", "mmpmon")
    unknown = ("rtt_ms", "exe_ms", "queue_ms", "retrans", "errors", "inflight")
    assert {name: read[name] for name in unknown} == dict.fromkeys(unknown)
    assert (rows["/project", "meta"]["ops"], rows["/project", "meta"]["bytes"]) == (8, None)


def test_it_asks_every_ten_seconds_and_never_resets(node: Callable[..., Node]) -> None:
    gpfs = node()
    gpfs.ask(0)
    for second in (2, 5, 9.9):
        assert rows_at(gpfs.gpfs, second) == []
    assert gpfs.asked() == 1  # the stand-in takes nothing but fs_io_s
    gpfs.ask(10)
    assert gpfs.asked() == 2


def test_counters_that_somebody_reset_cost_one_interval(node: Callable[..., Node]) -> None:
    gpfs = node()
    gpfs.ask(0)
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 5"))
    assert gpfs.ask(10) == {}
    assert gpfs.gpfs.facts()["restarts"] == {"/scratch": 1}
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 9"))
    assert gpfs.ask(20)["/scratch", "read"]["ops"] == 4


def test_a_file_system_that_was_refused_starts_anew(node: Callable[..., Node]) -> None:
    gpfs = node()
    gpfs.ask(0)
    gpfs.answer(TWO.replace("_rc_ 0", "_rc_ 1"))
    assert gpfs.ask(10) == {}
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 59420504"))
    # Its interval would be another one than that of the row.
    assert gpfs.ask(20) == {}
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 59420505"))
    assert gpfs.ask(30)["/scratch", "read"]["ops"] == 1


def test_a_file_system_without_a_mount_here_has_no_row(node: Callable[..., Node]) -> None:
    gpfs = node(mounts=PROJECT)
    gpfs.ask(0)
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 59420504"))
    assert gpfs.ask(10) == {}


def test_long_waiters_are_facts(node: Callable[..., Node]) -> None:
    gpfs = node()
    gpfs.ask(0)
    expected = {"thread": "RebuildWorkThread", "reason": "for I/O completion", "longest_s": 64.3}
    assert gpfs.gpfs.facts()["waiters"] == [{**expected, "seen": 3}]
    gpfs.ask(10)
    gpfs.ask(20)  # mmdiag is asked every 30 s only
    assert gpfs.gpfs.facts()["waiters"] == [{**expected, "seen": 3}]
    gpfs.ask(30)
    gpfs.gpfs.close()
    assert gpfs.gpfs.facts()["waiters"] == [{**expected, "seen": 6}]


def test_a_version_without_y_is_asked_for_the_text(node: Callable[..., Node]) -> None:
    gpfs = node()
    (gpfs.tools / "old").write_text("")
    gpfs.ask(0)
    waiters = {each["thread"]: each for each in gpfs.gpfs.facts()["waiters"]}  # type: ignore[attr-defined]
    assert waiters["NSDThread"]["seen"] == 2 and waiters["NSDThread"]["longest_s"] == 64.389
    assert waiters["foobar"]["reason"] == ""


def test_mmfsd_down_is_said_and_asked_less_and_less_often(node: Callable[..., Node]) -> None:
    gpfs = node()
    (gpfs.tools / "fails").write_text("")
    for second in range(0, 200, 2):
        gpfs.ask(second)
    # At 0, 20, 60 and 140 s: twice as long after each failure.
    assert gpfs.asked() == 4
    failure = gpfs.gpfs.facts()["failures"]["mmpmon"]  # type: ignore[index]
    assert failure["count"] == 4 and "Could not communicate with mmfsd" in failure["reason"]
    (gpfs.tools / "fails").unlink()
    assert gpfs.ask(300) == gpfs.ask(310) == {}
    gpfs.answer(TWO.replace("_rdc_ 59420404", "_rdc_ 59420504"))
    assert gpfs.ask(320)["/scratch", "read"]["interval_ns"] == 10 * SECOND_NS


def test_an_mmpmon_that_hangs_delays_no_tick_and_not_the_waiters(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.3)
    gpfs = node()
    (gpfs.tools / "hangs").write_text("")
    began_s = time.monotonic()
    rows_at(gpfs.gpfs, 0)
    assert time.monotonic() - began_s < 0.25
    gpfs.ask(1)
    facts = gpfs.gpfs.facts()
    assert "no answer within 0.3 s" in facts["failures"]["mmpmon"]["reason"]  # type: ignore[index]
    assert facts["waiters"]
