"""Block rows of a mount: leaves only, so that no byte and no latency counts twice."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from slurm_io.analysis.devices import leaf_rows, leaves_of, went_back
from tests.analysis.stand_in import StandInNode, StandInStore


def store(**blocks: object) -> StandInStore:
    nodes = {
        name: StandInNode(name, {"sources": {"block": block}}) for name, block in blocks.items()
    }
    return StandInStore(None, nodes, tuple(nodes))


def rows(*found: tuple[str, str, str, float]) -> pl.DataFrame:
    return pl.DataFrame(found, schema=["node", "device", "role", "rkB_s"], orient="row")


RAID = rows(
    ("n1", "md0", "md", 200.0), ("n1", "nvme0n1", "disk", 100.0), ("n1", "nvme1n1", "disk", 100.0),
    ("n1", "nvme0n1p1", "partition", 100.0), ("n1", "nvme1n1p1", "partition", 100.0),
    ("n1", "sda", "disk", 7.0), ("n2", "md0", "md", 40.0), ("n2", "sda", "disk", 3.0),
)  # fmt: skip
LEAVES = {"leaves": {"/raid": ["nvme0n1", "nvme1n1"], "/": ["sda"]}}


def test_a_raids_bytes_are_those_of_its_disks_once() -> None:
    found = leaf_rows(RAID.filter(pl.col("node") == "n1"), store(n1=LEAVES), [("n1", "/raid")])
    assert sorted(found["device"]) == ["nvme0n1", "nvme1n1"]
    assert found["rkB_s"].sum() == 200.0


def test_each_node_has_its_own_leaves_and_without_them_all_layers_but_partitions() -> None:
    found = leaf_rows(RAID, store(n1=LEAVES, n2={}), [("n1", "/"), ("n2", "/raid")])
    assert sorted(found.select("node", "device").rows()) == [
        ("n1", "sda"), ("n2", "md0"), ("n2", "sda"),
    ]  # fmt: skip


def test_a_mount_that_is_none_of_the_known_ones_is_looked_for_on_all_layers() -> None:
    found = leaf_rows(RAID, store(n1=LEAVES), [("n1", "/zfs")])
    assert "partition" not in set(found["role"]) and len(found) == 6


@pytest.mark.parametrize("junk", [None, 3, [], {"leaves": 1}, {"leaves": {"/raid": "sda"}},
                                  {"leaves": {"/raid": [1, None]}}, {"restarts": [1]},
                                  {"restarts": {"sda": "x", "sdb": -1, "sdc": True}}])  # fmt: skip
def test_a_hostile_store_breaks_nothing(junk: Any) -> None:
    view = store(n1=junk)
    assert not any(leaves_of(view.nodes["n1"]).values())
    assert len(leaf_rows(RAID, view, [("n1", "/raid")])) == 6
    assert went_back(view) == []


def test_counters_that_went_back_are_told_with_their_device() -> None:
    ((source, reason),) = went_back(store(n1={"restarts": {"sdf": 1}}))
    assert source == "block" and "1 interval has no figures, of sdf on n1" in reason
    many = {f"sd{i}": 2 for i in range(20)}
    ((_, reason),) = went_back(store(n1={"restarts": many}))
    assert "40 intervals" in reason and "and 12 more" in reason
