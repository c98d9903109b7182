"""Markers: who has arrived, and one leader at a time."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurm_io.errors import StoreError
from slurm_io.store.markers import arrived, claim_leader, mark_done, release_leader


def test_arrived_lists_done_nodes_only(tmp_path: Path) -> None:
    mark_done(tmp_path, "n1", {"ts_ns": 1})
    mark_done(tmp_path, "n-2.site", {"ts_ns": 1})
    mark_done(tmp_path, "n1", {"ts_ns": 2})
    (tmp_path / "DONE.folder").mkdir()
    (tmp_path / "DONE.link").symlink_to(tmp_path / "DONE.n1")
    (tmp_path / "DONE.").touch()
    (tmp_path / "node=n3").mkdir()
    assert arrived(tmp_path) == {"n1", "n-2.site"}


@pytest.mark.parametrize("node", ["", "../x", "a/b", ".hidden", "a\n", "x" * 300])
def test_a_bad_node_name_is_refused(node: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no node name"):
        mark_done(tmp_path, node, {})
    with pytest.raises(StoreError, match="no node name"):
        claim_leader(tmp_path, node)
    assert list(tmp_path.iterdir()) == []


def test_one_leader_until_released(tmp_path: Path) -> None:
    assert claim_leader(tmp_path, "n1")
    assert not claim_leader(tmp_path, "n2")
    assert not claim_leader(tmp_path, "n1")
    release_leader(tmp_path, "n2")
    assert not claim_leader(tmp_path, "n2")
    release_leader(tmp_path, "n1")
    assert claim_leader(tmp_path, "n2")
    assert [path.name for path in tmp_path.iterdir()] == [".leader"]


def test_many_at_once_yield_one_leader(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda i: claim_leader(tmp_path, f"n{i}"), range(64)))
    assert sum(won) == 1


def test_a_dead_leaders_claim_is_taken_over_once(tmp_path: Path) -> None:
    assert claim_leader(tmp_path, "dead")
    old_s = time.time() - 1000
    os.utime(tmp_path / ".leader", (old_s, old_s))
    assert not claim_leader(tmp_path, "n1", stale_s=2000)
    assert claim_leader(tmp_path, "n1", stale_s=500)
    assert not claim_leader(tmp_path, "n2", stale_s=500)
    release_leader(tmp_path, "dead")
    assert not claim_leader(tmp_path, "n2", stale_s=500)
    assert [path.name for path in tmp_path.iterdir()] == [".leader"]


@pytest.mark.parametrize("what", ["folder", "link"])
def test_something_else_in_the_way_is_no_crash(what: str, tmp_path: Path) -> None:
    lock = tmp_path / ".leader"
    if what == "folder":
        lock.mkdir()
    else:
        lock.symlink_to("/etc/passwd")
    assert not claim_leader(tmp_path, "n1")
    with pytest.raises(StoreError, match="leader"):
        release_leader(tmp_path, "n1")


def test_a_store_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gone"):
        claim_leader(tmp_path / "gone", "n1")
    with pytest.raises(StoreError, match="gone"):
        arrived(tmp_path / "gone")
    release_leader(tmp_path / "gone", "n1")
