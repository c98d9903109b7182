"""The Weka collector on recorded texts and series made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Availability
from slurm_io.collectors.weka import Weka
from tests.collectors.fake_host import SECOND_NS, context, rows_at, tick, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.filesystems.client_samples import sample

STAT = sample("weka/proc_wekafs_stat_3.6.txt")
INTERFACE = sample("weka/proc_wekafs_interface.txt")
WEKA = mount_line(36, "/mnt/weka", "wekafs", "192.0.2.31/fs01")


def stat(**operations: tuple[int, int]) -> str:
    """name -> (count, mean us); the kernel's part is always 2000 ns."""
    head = STAT.splitlines(keepends=True)[:2]
    lines = (
        f"{name}: {mean_us} us 0 us 2000 ns 0 ns {ops}\n"
        for name, (ops, mean_us) in operations.items()
    )
    return "".join([*head, *lines])


class Node:
    def __init__(self, root: Path, files: dict[str, str], mounts: str = WEKA) -> None:
        self.root = root
        self.write({"proc/self/mountinfo": ROOT + mounts, **files})
        self.weka = Weka()
        self.availability = self.weka.open(context(root))

    def write(self, files: dict[str, str]) -> None:
        write_tree(self.root, files)

    def rows(self, second: float, text: str | None = None) -> dict[str, dict[str, Any]]:
        if text is not None:
            self.write({"proc/wekafs/stat": text})
        return {row["op_class"]: row for row in rows_at(self.weka, second)}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, {"proc/wekafs/stat": STAT, "proc/wekafs/interface": INTERFACE})


def test_without_a_mount_there_is_nothing_to_miss(tmp_path: Path) -> None:
    node = Node(tmp_path, {"proc/wekafs/stat": STAT}, mounts="")
    assert node.availability == Availability("absent", "no Weka mount here")
    assert node.rows(0) == node.rows(1, STAT.replace("4079", "4080")) == {}


def test_a_mount_that_comes_later_is_found_when_opened_again(tmp_path: Path) -> None:
    node = Node(tmp_path, {"proc/wekafs/stat": STAT}, mounts="")
    node.write({"proc/self/mountinfo": ROOT + WEKA})
    assert node.weka.open(context(tmp_path)).state == "on"


def test_counters_that_do_not_move_have_no_row(node: Node) -> None:
    assert node.availability == Availability("on")
    assert [node.rows(second) for second in (0, 1, 2)] == [{}, {}, {}]


def test_a_series_gives_the_difference_of_totals_by_class(tmp_path: Path) -> None:
    first = stat(read=(1000, 100), write=(50, 10), lookup=(10, 5), keepalive=(5, 1))
    node = Node(tmp_path, {"proc/wekafs/stat": first})
    assert node.rows(0) == {}
    rows = node.rows(
        2, stat(read=(4000, 400), write=(50, 10), lookup=(20, 5), open=(5, 1000), keepalive=(99, 1))
    )
    assert rows.keys() == {"read", "meta"}
    read = rows["read"]
    assert (read["mount"], read["fstype"], read["source"]) == ("/mnt/weka", "wekafs", "wekafs")
    assert (read["interval_ns"], read["mono_ns"]) == (2 * SECOND_NS, tick(2).mono_ns)
    assert read["ops"] == 3000
    assert read["rtt_ms"] == pytest.approx((4000 * 400 - 1000 * 100) / 3000 / 1000)
    assert read["exe_ms"] == pytest.approx(read["rtt_ms"] + 0.002)
    unknown = ("bytes", "queue_ms", "retrans", "errors", "inflight")
    assert {name: read[name] for name in unknown} == dict.fromkeys(unknown)
    assert rows["meta"]["ops"] == 15
    assert rows["meta"]["rtt_ms"] == pytest.approx((10 * 5 + 5 * 1000) / 15 / 1000)


def test_gpudirect_comes_as_ioctl_and_is_neither_read_nor_write(node: Node) -> None:
    node.rows(0)
    rows = node.rows(1, STAT.replace("717328710", "717392000"))
    assert rows.keys() == {"any"}
    assert rows["any"]["ops"] == 63290
    # 7 * 10^8 operations at whole microseconds: the second's own mean is lost.
    assert (rows["any"]["rtt_ms"], rows["any"]["exe_ms"]) == (None, None)
    (container,) = node.weka.facts()["containers"]  # type: ignore[misc]
    assert (container["intervals_with_times"], container["intervals_too_coarse"]) == (0, 1)


def test_a_reloaded_driver_costs_one_interval_and_is_counted(tmp_path: Path) -> None:
    node = Node(tmp_path, {"proc/wekafs/stat": stat(read=(1000, 100))})
    node.rows(0)
    assert node.rows(1, stat(read=(10, 100))) == {}
    assert node.weka.facts()["restarts"] == {"/mnt/weka": 1}
    row = node.rows(2, stat(read=(30, 100)))["read"]
    assert (row["ops"], row["rtt_ms"]) == (20, pytest.approx(0.1))


def test_a_counter_one_step_back_gives_no_number_at_all(node: Node) -> None:
    node.rows(0)
    assert node.rows(1, STAT.replace("717328710", "717328709")) == {}
    assert node.weka.facts()["restarts"] == {"/mnt/weka": 1}
    assert node.rows(2, STAT)["any"]["ops"] == 1


def test_several_file_systems_share_one_counter(tmp_path: Path) -> None:
    mounts = WEKA + mount_line(37, "/mnt/other", "wekafs", "192.0.2.31/fs02")
    node = Node(tmp_path, {"proc/wekafs/stat": stat(read=(1, 1))}, mounts)
    node.rows(0)
    assert node.rows(1, stat(read=(9, 1)))["read"]["mount"] == "*"
    assert node.weka.facts()["mounts"] == ["/mnt/weka", "/mnt/other"]


def test_one_file_system_mounted_twice_is_named_by_its_first_mount(tmp_path: Path) -> None:
    mounts = WEKA + mount_line(37, "/bound", "wekafs", "192.0.2.31/fs01", device="0:36")
    node = Node(tmp_path, {"proc/wekafs/stat": stat(read=(1, 1))}, mounts)
    node.rows(0)
    assert node.rows(1, stat(read=(9, 1)))["read"]["mount"] == "/mnt/weka"


def test_containers_with_counters_of_their_own(tmp_path: Path) -> None:
    mounts = "".join(
        mount_line(n, f"/w{n}", "wekafs", f"h/fs{n}", options=f"rw,container_name=c{n}")
        for n in (40, 41)
    )
    files = {f"proc/wekafs/c{n}/stat": stat(read=(n, 1)) for n in (40, 41)}
    node = Node(tmp_path, files, mounts)
    assert rows_at(node.weka, 0) == []
    node.write({"proc/wekafs/c41/stat": stat(read=(100, 1))})
    (row,) = rows_at(node.weka, 1)
    assert (row["mount"], row["ops"]) == ("/w41", 59)


def test_a_layout_with_queues_only_is_off_with_the_reason(tmp_path: Path) -> None:
    node = Node(tmp_path, {"proc/wekafs/client/queue": "whatever\n"})
    assert node.availability.state == "off" and "stat" in node.availability.reason
    assert node.rows(0) == {}


def test_a_front_end_that_is_gone_and_errors_that_grew_are_facts(node: Node) -> None:
    node.rows(0)
    broken = INTERFACE.replace("Connected frontend pid 4081176", "Frontend is not connected")
    node.write({"proc/wekafs/interface": broken.replace("other_errors: 0", "other_errors: 7")})
    node.rows(1)
    node.rows(2)
    node.write({"proc/wekafs/interface": INTERFACE})
    node.rows(3)
    node.weka.close()
    (facts,) = node.weka.facts()["containers"]  # type: ignore[misc]
    assert facts["front_end_missing_ticks"] == 2
    assert facts["front_end_missing_ts_ns"] == [tick(1).ts_ns, tick(2).ts_ns]
    assert facts["driver_state"] == "DRIVER_ACCEPTING"
    assert [each["connected"] for each in facts["front_ends"]] == [True, True]


def test_error_counters_are_told_since_the_start(node: Node) -> None:
    node.rows(0)
    node.write({"proc/wekafs/interface": INTERFACE.replace("enospc_errors: 0", "enospc_errors: 4")})
    node.rows(1)
    (facts,) = node.weka.facts()["containers"]  # type: ignore[misc]
    assert facts["errors"] == {"NS_num_enospc_errors": 4}


def test_a_source_that_goes_and_comes_back_starts_anew(tmp_path: Path) -> None:
    node = Node(tmp_path, {"proc/wekafs/stat": stat(read=(1000, 100))})
    node.rows(0)
    node.weka._containers[0].stat.close()
    (tmp_path / "proc/wekafs/stat").unlink()
    assert node.rows(1) == {}
    assert node.rows(2, stat(read=(9000, 100))) == {}
    assert node.rows(3, stat(read=(9001, 100)))["read"]["ops"] == 1
