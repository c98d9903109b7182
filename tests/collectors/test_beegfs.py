"""The BeeGFS collector: no row ever, health in meta.json."""

from __future__ import annotations

from pathlib import Path

from slurm_io.collectors.base import Availability
from slurm_io.collectors.beegfs import BeeGfs
from tests.collectors.fake_host import context, tick, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.filesystems.beegfs.test_beegfs_texts import META_NODES, STORAGE_NODES

CLIENT = "proc/fs/beegfs/1A2B-65000000-node01"
WELL = "[Target ID: 101] @ beegfs-storage s1 [ID: 1]: Online / Good \n"
MOUNT = mount_line(50, "/beegfs", "beegfs", "beegfs_nodev", options="rw,cfgFile=/etc/beegfs/a.conf")


def node(root: Path, mounts: str = MOUNT) -> BeeGfs:
    write_tree(
        root,
        {
            "proc/self/mountinfo": ROOT + mounts,
            f"{CLIENT}/config": "cfgFile = /etc/beegfs/a.conf\n",
            f"{CLIENT}/meta_nodes": META_NODES,
            f"{CLIENT}/storage_nodes": STORAGE_NODES,
            f"{CLIENT}/meta_target_state": "",
            f"{CLIENT}/storage_target_state": WELL,
        },
    )
    return BeeGfs()


def test_without_a_mount_there_is_nothing_to_miss(tmp_path: Path) -> None:
    assert node(tmp_path, mounts="").open(context(tmp_path)) == Availability(
        "absent", "no BeeGFS mount here"
    )


def test_without_the_clients_files_it_is_off(tmp_path: Path) -> None:
    write_tree(tmp_path, {"proc/self/mountinfo": ROOT + MOUNT})
    availability = BeeGfs().open(context(tmp_path))
    assert availability.state == "off" and "proc/fs/beegfs" in availability.reason


def test_there_is_never_a_row_and_the_reason_is_told(tmp_path: Path) -> None:
    collector = node(tmp_path)
    assert collector.open(context(tmp_path)) == Availability("on")
    assert [collector.collect(tick(second)) for second in (0, 10)] == [[], []]
    facts = collector.facts()
    assert "process table" in facts["unknown"]["rows"]  # type: ignore[index]
    collector.close()


def test_servers_and_connections_are_facts(tmp_path: Path) -> None:
    collector = node(tmp_path)
    collector.open(context(tmp_path))
    collector.collect(tick(0))
    (client,) = collector.facts()["clients"]  # type: ignore[misc]
    assert client["mounts"] == ["/beegfs"]
    assert client["servers"] == {"storage": 1, "meta": 2}
    # All four TCP connections go over a fallback route.
    assert client["connections"] == {
        "storage": {"TCP": 4, "fallback": 4, "RDMA": 12},
        "meta": {"TCP": 3},
    }
    assert (client["targets"], client["not_well"]) == ({"storage": 1, "meta": 0}, {})
    collector.close()


def test_a_target_that_was_not_well_is_kept_with_its_times(tmp_path: Path) -> None:
    collector = node(tmp_path)
    collector.open(context(tmp_path))
    collector.collect(tick(0))
    bad = WELL.replace("Online / Good", "Probably-offline / Needs-resync")
    write_tree(tmp_path, {f"{CLIENT}/storage_target_state": bad})
    for second in (10, 20, 30):
        collector.collect(tick(second))
    write_tree(tmp_path, {f"{CLIENT}/storage_target_state": WELL})
    collector.collect(tick(40))
    collector.close()
    (client,) = collector.facts()["clients"]  # type: ignore[misc]
    name = "storage target 101 @ beegfs-storage s1 [ID: 1]: Probably-offline / Needs-resync"
    assert client["not_well"] == {
        name: {"ticks": 3, "first_ts_ns": tick(10).ts_ns, "last_ts_ns": tick(30).ts_ns}
    }
    collector.close()


def test_of_two_clients_each_has_its_own_mount(tmp_path: Path) -> None:
    second = MOUNT.replace("50 1 0:50", "51 1 0:51").replace("/beegfs rw", "/two rw")
    collector = node(tmp_path, MOUNT + second.replace("a.conf", "b.conf"))
    write_tree(tmp_path, {"proc/fs/beegfs/other/config": "cfgFile = /etc/beegfs/b.conf\n"})
    collector.open(context(tmp_path))
    collector.collect(tick(0))
    clients = collector.facts()["clients"]
    assert [client["mounts"] for client in clients] == [["/beegfs"], ["/two"]]  # type: ignore[attr-defined]
    collector.close()
