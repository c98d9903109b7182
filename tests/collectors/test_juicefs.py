"""The JuiceFS collector on made-up mounts, and on a real FUSE mount that hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors import juicefs as module
from slurm_io.collectors.base import Availability
from slurm_io.collectors.juicefs import JuiceFs
from tests.collectors.fake_host import SECOND_NS, context, rows_at, tick, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.filesystems.juicefs.test_juicefs_texts import DURATIONS, ENTERPRISE, community
from tests.labs.slowfs import SlowFs, fuse_missing

READS = "juicefs_fuse_read_size_bytes"


class Node:
    """A node with JuiceFS mounts whose mount points are folders below `root`."""

    def __init__(self, root: Path, *points: str) -> None:
        self.points = {name: root / name for name in points}
        lines = [
            mount_line(50 + at, str(path), "fuse.juicefs", f"JuiceFS:{name}")
            for at, (name, path) in enumerate(self.points.items())
        ]
        write_tree(root, {"proc/self/mountinfo": ROOT + "".join(lines)})
        for path in self.points.values():
            path.mkdir(exist_ok=True)
        self.juicefs = JuiceFs()
        self.availability = self.juicefs.open(context(root))

    def stats(self, name: str, text: str) -> None:
        (self.points[name] / ".stats").write_text(text)

    def ask(self, second: float) -> dict[tuple[str, str], dict[str, Any]]:
        """Put the question at `second`, and take all rows that come of it at the next second."""
        assert rows_at(self.juicefs, second) == []
        rows: list[dict[str, Any]] = []
        end_s = time.monotonic() + 20
        while self.juicefs._probes is not None and self.juicefs._probes.is_asking:
            assert time.monotonic() < end_s
            rows += rows_at(self.juicefs, second + 1)
            time.sleep(0.01)
        return {(Path(row["mount"]).name, row["op_class"]): row for row in rows}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, "jfs")
    yield made
    made.juicefs.close()


def test_without_a_mount_there_is_nothing_to_miss(tmp_path: Path) -> None:
    assert Node(tmp_path).availability == Availability("absent", "no JuiceFS mount here")


def test_a_series(node: Node) -> None:
    node.stats("jfs", community())
    assert node.availability == Availability("on")
    assert node.ask(0) == {}
    later = {
        f"{READS}_total": 700,
        f"{READS}_sum": 78643200 + 100 * 131072,
        "juicefs_fuse_ops_durations_seconds_read": 8.4,
        "juicefs_fuse_ops_durations_histogram_seconds_total": 1110,
        "juicefs_fuse_ops_durations_histogram_seconds_sum": 12.92,
        f"{DURATIONS}_GET_total": 25,
        f"{DURATIONS}_GET_sum": 3.5,
        "juicefs_uptime": 4106.0,
    }
    node.stats("jfs", community(**later))
    rows = node.ask(10)
    assert rows.keys() == {("jfs", "read"), ("jfs", "meta")}
    read = rows["jfs", "read"]
    assert (read["fstype"], read["source"]) == ("fuse.juicefs", "juicefs .stats")
    assert (read["mono_ns"], read["interval_ns"]) == (tick(10).mono_ns, 10 * SECOND_NS)
    assert (read["ops"], read["bytes"]) == (100, 100 * 131072)
    assert read["exe_ms"] == pytest.approx(4.0)
    assert read["rtt_ms"] == pytest.approx(100.0)  # 5 GETs in 0.5 s
    unknown = ("queue_ms", "retrans", "errors", "inflight")
    assert {name: read[name] for name in unknown} == dict.fromkeys(unknown)
    meta = rows["jfs", "meta"]
    assert (meta["ops"], meta["bytes"], meta["rtt_ms"]) == (10, None, None)
    assert meta["exe_ms"] == pytest.approx(2.0)
    node.juicefs.close()
    (facts,) = node.juicefs.facts()["mounts"]  # type: ignore[misc]
    assert facts["store_requests"] == {"GET": 5, "PUT": 0, "failed": 0}


def test_the_enterprise_edition(node: Node) -> None:
    node.stats("jfs", ENTERPRISE)
    node.ask(0)
    changed = ENTERPRISE.replace("fuse_ops.read: 29264056", "fuse_ops.read: 29264066")
    changed = changed.replace("read_bytes: 3269189737736", "read_bytes: 3269189737836")
    changed = changed.replace("fuse_ops: 126562751", "fuse_ops: 126562771")
    changed = changed.replace("object.get: 41", "object.get: 43")
    node.stats("jfs", changed.replace("objectDuration.get: 1107924", "objectDuration.get: 1127924"))
    rows = node.ask(10)
    read = rows["jfs", "read"]
    assert (read["ops"], read["bytes"], read["exe_ms"]) == (10, 100, None)
    assert read["rtt_ms"] == pytest.approx(10.0)
    assert rows["jfs", "meta"]["ops"] == 10


def test_it_asks_every_ten_seconds_only(node: Node) -> None:
    node.stats("jfs", community())
    node.ask(0)
    node.stats("jfs", community(**{f"{READS}_total": 700}))
    for second in (1, 5, 9):
        assert node.ask(second) == {}
    assert node.ask(10)["jfs", "read"]["ops"] == 100


def test_a_daemon_started_anew_costs_one_interval(node: Node) -> None:
    node.stats("jfs", community())
    node.ask(0)
    # Its counters have passed the old ones already; its uptime tells.
    node.stats("jfs", community(**{f"{READS}_total": 5000, "juicefs_uptime": 9}))
    assert node.ask(10) == {}
    (restarts,) = node.juicefs.facts()["restarts"].values()  # type: ignore[attr-defined]
    assert restarts == 1
    node.stats("jfs", community(**{f"{READS}_total": 5001, "juicefs_uptime": 19}))
    assert node.ask(20)["jfs", "read"]["ops"] == 1


def test_a_mount_without_the_file_costs_only_itself(tmp_path: Path) -> None:
    node = Node(tmp_path, "empty", "jfs", "strange")
    node.stats("jfs", community())
    (node.points["strange"] / ".stats").symlink_to("/etc/passwd")
    node.ask(0)
    node.stats("jfs", community(**{f"{READS}_total": 601}))
    assert node.ask(10).keys() == {("jfs", "read")}
    failures = node.juicefs.facts()["failures"]
    reasons = {Path(mount).name: each["reason"] for mount, each in failures.items()}  # type: ignore[attr-defined]
    assert reasons.keys() == {"empty", "strange"}
    assert "No such file" in reasons["empty"]
    node.juicefs.close()


@pytest.mark.fuse
def test_a_mount_that_hangs_delays_no_tick_and_no_other_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := fuse_missing():
        pytest.skip(reason)
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.5)
    backing = tmp_path / "backing"
    backing.mkdir()
    (backing / ".stats").write_text(community())
    with SlowFs(backing, tmp_path / "jfs", attr_timeout_s=0.0) as slow:
        node = Node(tmp_path, "jfs", "other")
        node.stats("other", community())
        assert node.ask(0) == {}
        (backing / ".stats").write_text(community(**{f"{READS}_total": 700}))
        assert node.ask(10)["jfs", "read"]["ops"] == 100
        slow.change(hang_globs=(".stats",), hang_classes=("open", "read"))
        node.stats("other", community(**{f"{READS}_total": 650}))
        began_s = time.monotonic()
        assert rows_at(node.juicefs, 20) == []
        assert time.monotonic() - began_s < 0.4
        assert node.ask(21)["other", "read"]["ops"] == 50
        (failure,) = node.juicefs.facts()["failures"].values()  # type: ignore[attr-defined]
        assert "no answer within 0.5 s" in failure["reason"]
        slow.change(hang_globs=())
        probes = node.juicefs._probes
        assert probes is not None
        end_s = time.monotonic() + 5
        while any(one.still_stuck() for one in probes._stuck.values()):
            assert time.monotonic() < end_s
            time.sleep(0.01)
        (backing / ".stats").write_text(community(**{f"{READS}_total": 730}))
        row = node.ask(40)["jfs", "read"]
        # Its interval is its own: since it last answered.
        assert (row["ops"], row["interval_ns"]) == (30, 30 * SECOND_NS)
        node.juicefs.close()
