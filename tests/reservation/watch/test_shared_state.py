"""The watch over a scripted Slurm: what it shares with swaps and the status, and where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.status import gpu_ledger
from slurm_io.reservation.swap.lock import held
from slurm_io.reservation.swap.real_world import open_world
from slurm_io.reservation.watch.site import Site
from tests.reservation.pools import NODES, FakeReach, FakeSlurm, config_of, report

LEASE_S = 60.0


@pytest.fixture
def reach() -> FakeReach:
    return FakeReach({name: report() for name in NODES})


@pytest.fixture
def site(tmp_path: Path, reach: FakeReach, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Of a site whose nodes, and managing machines, share one state folder."""
    monkeypatch.setenv("SLURMD_NODENAME", "head1")
    tmp_path.chmod(0o755)
    config = replace(config_of(), state_dir=f"{tmp_path}/%N/state")
    return Site(FakeSlurm(), reach, config, None, "train")  # type: ignore[arg-type]


def test_it_sees_the_lock_of_a_swap(site: Site, tmp_path: Path) -> None:
    assert site.look(1000.0, ()).lock_holder is None
    swaps = open_world(site.config, "train", None).config
    with held(swaps.state_dir, "train", LEASE_S, "a swap"):
        assert "a swap by pid" in str(site.look(1000.0, ()).lock_holder)
    assert (tmp_path / "head1" / "state" / "reservations" / "train").is_dir()


def test_it_writes_the_history_that_a_swap_reads(site: Site) -> None:
    record = HistoryRecord("failure", 1000.0, "n2")
    site.record(record)
    swaps = open_world(site.config, "train", None).config
    assert History(swaps.state_dir, "train").read() == (record,)


def test_machines_of_other_names_have_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(site.config.state_dir, "train", LEASE_S, "a swap"):
        monkeypatch.setenv("SLURMD_NODENAME", "head2")
        assert site.look(1000.0, ()).lock_holder is None


def test_gpus_that_it_saw_are_kept_for_the_status(site: Site, reach: FakeReach) -> None:
    reach.reports["n2"] = report(gpus=["GPU-a", "GPU-b"])
    site.look(1000.0, ())
    ledger = gpu_ledger.load(site.config.state_dir, "train")
    assert [stay.node for uuid in ("GPU-a", "GPU-b") for stay in ledger[uuid]] == ["n2", "n2"]


def test_a_ledger_that_cannot_be_kept_stops_no_look(
    site: Site, reach: FakeReach, tmp_path: Path
) -> None:
    reach.reports["n2"] = report(gpus=["GPU-a"])
    site.record(HistoryRecord("failure", 1000.0, "n2"))  # makes the folder
    (tmp_path / "head1/state/reservations/train" / gpu_ledger.FILE_NAME).mkdir()
    assert site.look(1000.0, ()).says["n2"].gpus == ("GPU-a",)
