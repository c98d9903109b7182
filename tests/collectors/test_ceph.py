"""The Ceph collector on made-up debugfs trees of both layouts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Availability
from slurm_io.collectors.ceph import Ceph
from slurm_io.filesystems.ceph import debugfs
from tests.collectors.fake_host import SECOND_NS, context, rows_at, tick, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.filesystems.ceph.test_ceph_texts import CAPS, FILE, LATENCY, MDSC, OSDC, SIZE
from tests.filesystems.client_samples import sample

FSID = "1bbb7753-85e5-4d33-a860-84419fdcfd7d"
ROOM = "sys/kernel/debug/ceph"
ONE, TWO = f"{FSID}.client4123", f"{FSID}.client4124"
MOUNT = mount_line(36, "/ceph", "ceph", f"admin@{FSID}.cephfs=/")
SECOND_MOUNT = mount_line(37, "/home", "ceph", f"admin@{FSID}.cephfs=/home")
QUIET_OSDC = "REQUESTS 0 homeless 0\nLINGER REQUESTS\nBACKOFFS\n"


def client(name: str, osdc: str = QUIET_OSDC, mdsc: str = "", **given: int) -> dict[str, str]:
    """The files of one client, as newer kernels have them."""
    numbers = {"read": 0, "read_us": 0, "write": 5, "write_us": 914013, "read_bytes": 0}
    numbers |= {"write_bytes": 20971520} | given
    return {
        f"{ROOM}/{name}/metrics/latency": LATENCY.format(**numbers),
        f"{ROOM}/{name}/metrics/size": SIZE.format(**numbers),
        f"{ROOM}/{name}/metrics/file": FILE,
        f"{ROOM}/{name}/metrics/caps": CAPS,
        f"{ROOM}/{name}/osdc": osdc,
        f"{ROOM}/{name}/mdsc": mdsc,
    }


class Node:
    def __init__(self, root: Path, files: dict[str, str], mounts: str = MOUNT) -> None:
        self.root = root
        self.write({"proc/self/mountinfo": ROOT + mounts, **files})
        self.ceph = Ceph()
        self.availability = self.ceph.open(context(root))

    def write(self, files: dict[str, str]) -> None:
        write_tree(self.root, files)

    def rows(self, second: float, files: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
        self.write(files or {})
        return {row["op_class"]: row for row in rows_at(self.ceph, second)}


def test_without_a_mount_there_is_nothing_to_miss(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE), mounts="")
    assert node.availability == Availability("absent", "no CephFS mount here")


def test_without_debugfs_it_is_off_with_what_to_do(tmp_path: Path) -> None:
    availability = Node(tmp_path, {}).availability
    assert availability.state == "off"
    assert "needs root and a mounted debugfs" in availability.reason


def test_a_kernel_without_metrics_is_said(tmp_path: Path) -> None:
    node = Node(tmp_path, {f"{ROOM}/{ONE}/osdc": QUIET_OSDC})
    assert node.availability.state == "partial" and "kernel 5.7" in node.availability.reason
    assert node.rows(0) == node.rows(1) == {}


def test_a_series(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE, read=100, read_us=2000, read_bytes=409600))
    assert node.availability == Availability("on")
    assert node.rows(0) == {}
    after = client(ONE, read=300, read_us=4000, read_bytes=1228800, write=6)
    rows = node.rows(2, after)
    assert rows.keys() == {"read", "write"}
    read = rows["read"]
    assert (read["mount"], read["fstype"], read["source"]) == ("/ceph", "ceph", "ceph debugfs")
    assert (read["interval_ns"], read["mono_ns"]) == (2 * SECOND_NS, tick(2).mono_ns)
    assert (read["ops"], read["bytes"], read["inflight"]) == (200, 819200, 0)
    assert read["exe_ms"] == pytest.approx((300 * 4000 - 100 * 2000) / 200 / 1000)
    unknown = ("rtt_ms", "queue_ms", "retrans", "errors")
    assert {name: read[name] for name in unknown} == dict.fromkeys(unknown)
    assert rows["write"]["ops"] == 1
    assert node.rows(3, after) == {}
    node.ceph.close()
    (facts,) = node.ceph.facts()["clients"]  # type: ignore[misc]
    assert (facts["client"], facts["mount"]) == (ONE, "/ceph")
    assert facts["means_since_start_ms"]["read"] == 5.0


def test_a_hung_server_has_rows_with_requests_in_flight(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE, read=100, read_us=2000))
    node.rows(0)
    hung = client(ONE, OSDC, MDSC, read=100, read_us=2000)
    for second in (1, 2, 3):
        rows = node.rows(second, hung)
        inflight = {name: (row["ops"], row["inflight"]) for name, row in rows.items()}
        assert inflight == {"read": (0, 2), "write": (0, 1), "meta": (0, 3)}
        assert {row["exe_ms"] for row in rows.values()} == {None}
    assert node.rows(4, client(ONE, read=102, read_us=2000))["read"]["ops"] == 2
    assert node.rows(5) == {}


def test_a_counter_one_step_back_gives_no_number_at_all(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE, read=100, read_us=2000, read_bytes=9))
    node.rows(0)
    assert node.rows(1, client(ONE, read=101, read_us=2000, read_bytes=8)) == {}
    assert node.ceph.facts()["restarts"] == {"/ceph": 1}
    row = node.rows(2, client(ONE, read=103, read_us=2000, read_bytes=28))["read"]
    assert (row["ops"], row["bytes"]) == (2, 20)


def test_the_single_file_of_older_kernels(tmp_path: Path) -> None:
    text = sample("ceph/debugfs_metrics_single_file.txt")
    files = {f"{ROOM}/{ONE}/metrics": text, f"{ROOM}/{ONE}/osdc": QUIET_OSDC}
    node = Node(tmp_path, files)
    node.rows(0)
    changed = text.replace("5           914013", "7           914013").replace(
        "20971520", "29360128"
    )
    row = node.rows(1, {f"{ROOM}/{ONE}/metrics": changed})["write"]
    assert (row["ops"], row["bytes"]) == (2, 8388608)
    # 7 operations at whole microseconds are known well enough.
    assert row["exe_ms"] == pytest.approx(914.013)
    # Without the list of metadata requests nothing is said of them.
    changed = changed.replace("79          12856", "80          12856")
    assert node.rows(2, {f"{ROOM}/{ONE}/metrics": changed})["meta"]["inflight"] is None


def test_the_first_version_has_no_bytes(tmp_path: Path) -> None:
    text = sample("ceph/debugfs_metrics_first_version.txt")
    node = Node(tmp_path, {f"{ROOM}/{ONE}/metrics": text})
    node.rows(0)
    row = node.rows(1, {f"{ROOM}/{ONE}/metrics": text.replace("2312", "2313")})["read"]
    assert (row["ops"], row["bytes"], row["inflight"]) == (1, None, None)


def test_a_mount_made_anew_is_another_client(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE, read=100, read_us=2000))
    node.rows(0)
    for path in sorted((tmp_path / ROOM / ONE).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / ROOM / ONE).rmdir()
    node.write({"proc/self/mountinfo": ROOT + MOUNT.replace("36 1 0:36", "90 1 0:90")})
    node.write(client(TWO, read=5, read_us=10))
    assert node.rows(31) == {}
    row = node.rows(32, client(TWO, read=9, read_us=10))["read"]
    assert (row["mount"], row["ops"]) == ("/ceph", 4)


def test_a_client_that_could_not_be_read_starts_anew(tmp_path: Path) -> None:
    node = Node(tmp_path, client(ONE, read=100, read_us=2000))
    node.rows(0)
    for name in ("latency", "size"):
        (tmp_path / ROOM / ONE / "metrics" / name).rename(tmp_path / name)
    for each in node.ceph._clients.values():
        each.close()
    assert node.rows(1) == {}
    # What was done meanwhile is not of the last second.
    assert node.rows(2, client(ONE, read=900, read_us=2000)) == {}
    assert node.rows(3, client(ONE, read=901, read_us=2000))["read"]["ops"] == 1


def test_of_very_many_mounts_each_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {f"/c{n}": f"{FSID}.client{n}" for n in range(100, 140)}
    monkeypatch.setattr(debugfs, "ask_client", lambda mount: names[mount])
    mounts = "".join(mount_line(n, f"/c{n}", "ceph", "a@b.c=/") for n in range(100, 140))
    files: dict[str, str] = {}
    for name in names.values():
        files |= client(name, read=1, read_us=5)
    node = Node(tmp_path, files, mounts)
    wait_for_answers(node)
    for second in range(1, 4):
        node.rows(second)
    for name in names.values():
        node.write(client(name, read=11, read_us=5))
    turns = [rows_at(node.ceph, second) for second in range(4, 7)]
    assert max(len(rows) for rows in turns) <= 16
    assert sorted(row["mount"] for rows in turns for row in rows) == sorted(names)
    assert {row["interval_ns"] for rows in turns for row in rows} == {3 * SECOND_NS}


def test_of_several_mounts_each_is_asked_which_client_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"/ceph": TWO, "/home": ONE}
    monkeypatch.setattr(debugfs, "ask_client", lambda mount: folders[mount])
    files = client(ONE, read=1, read_us=5) | client(TWO, read=1, read_us=5)
    node = Node(tmp_path, files, MOUNT + SECOND_MOUNT)
    wait_for_answers(node)
    node.rows(1)
    rows = rows_of_both(node, 2, client(ONE, read=11, read_us=5) | client(TWO, read=2, read_us=5))
    assert rows == {"/home": 10, "/ceph": 1}


def test_a_client_whose_mount_is_not_known_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mount: str) -> str:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(debugfs, "ask_client", refuse)
    files = client(ONE, read=1, read_us=5) | client(TWO, read=1, read_us=5)
    node = Node(tmp_path, files, MOUNT + SECOND_MOUNT)
    wait_for_answers(node)
    assert rows_of_both(node, 1, client(ONE, read=11, read_us=5)) == {}
    facts = node.ceph.facts()
    assert {each["mount"] for each in facts["clients"]} == {None}  # type: ignore[attr-defined]
    reasons = {failure["reason"] for failure in facts["failures"].values()}  # type: ignore[attr-defined]
    assert reasons == {"Operation not supported"}


def wait_for_answers(node: Node) -> None:
    end_s = time.monotonic() + 10
    while node.ceph._probes is not None and node.ceph._probes.is_asking:
        assert time.monotonic() < end_s
        node.rows(0)
        time.sleep(0.01)


def rows_of_both(node: Node, second: float, files: dict[str, str]) -> dict[str, int]:
    node.write(files)
    return {row["mount"]: row["ops"] for row in rows_at(node.ceph, second)}
