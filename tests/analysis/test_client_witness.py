"""What each file system client can say, and what none of them says by keeping silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.witness import Witness
from slurm_io.collectors.base import COLLECTORS
from slurm_io.store.schema import FSCLIENT
from tests.analysis.stand_in import EPOCH_NS, NS, Job, StandInStore, one_rank, train

STALLED = range(101, 131)
"""Seconds of the first half, in which every batch waits for storage."""
QUIET = range(140, 165)


@dataclass(frozen=True)
class Source:
    """A collector's rows: which columns have times, and where the mount's name stands."""

    collector: str
    fstype: str
    source: str
    classes: tuple[str, ...] = ("read", "meta")
    times: tuple[str, ...] = ("rtt_ms", "exe_ms")
    mount: str = "/scratch"
    stalls_show: bool = True  # requests in flight beside a count of completed ones


SOURCES = (
    Source("nfs", "nfs4", "mountstats"),
    Source("lustre", "lustre", "llite", times=("exe_ms",), stalls_show=False),
    Source("lustre", "lustre", "llite", times=(), stalls_show=False),  # before 2.14
    Source("lustre", "lustre", "osc+mdc", times=("rtt_ms",)),
    Source("lustre", "lustre", "osc+mdc", times=("rtt_ms",), mount="scratch-ffff8881"),
    Source("lustre", "lustre", "rpc_stats", times=()),
    Source("weka", "wekafs", "wekafs", mount="*", stalls_show=False),
    Source("weka", "wekafs", "wekafs", ("any",), mount="*", stalls_show=False),  # ioctl: GDS
    Source("weka", "wekafs", "wekafs", times=(), mount="*", stalls_show=False),  # too coarse
    Source("gpfs", "gpfs", "mmpmon", times=(), stalls_show=False),
    Source("ceph", "ceph", "ceph debugfs", times=("exe_ms",)),
    Source("juicefs", "fuse.juicefs", "juicefs .stats", stalls_show=False),
    Source("juicefs", "fuse.juicefs", "juicefs .stats", times=("rtt_ms",), stalls_show=False),
    Source("fuse", "fuse.sshfs", "fuse waiting", ("any",), times=(), stalls_show=False),
    Source("nvidia_fs", "nvidia-fs", "nvidia-fs", ("read",), times=("exe_ms",), mount="*"),
)
NAMES = [f"{one.source}-{'+'.join(one.times) or 'no times'}-{one.classes[0]}-{one.mount[:4]}"
         for one in SOURCES]  # fmt: skip


def job(fstype: str) -> StandInStore:
    """300 steps that wait 100 ms for storage, then 300 that wait for nothing."""

    def wait(k: int) -> tuple[float, str]:
        return (0.1, "storage") if k < 150 else (0.0005, "pipe")

    return Job([train(one_rank(), 450, 0.1, wait)], fstype=fstype).store()


def of_job(one: Source) -> str:
    """The file system that is waited for; GPUDirect Storage reads from any."""
    return "xfs" if one.collector == "nvidia_fs" else one.fstype


def rows(one: Source, stalled_ms: float, quiet_ms: float, **more: Any) -> list[dict[str, Any]]:
    def row(second: int, op_class: str, latency_ms: float) -> dict[str, Any]:
        return {
            "ts_ns": EPOCH_NS + second * NS, "mono_ns": second * NS, "interval_ns": NS,
            "mount": one.mount, "fstype": one.fstype, "source": one.source, "op_class": op_class,
            "ops": None if one.source == "fuse waiting" else 50,
            "inflight": 3 if one.source == "fuse waiting" else None,
            **dict.fromkeys(one.times, latency_ms), **more,
        }  # fmt: skip

    return [
        row(second, op_class, latency_ms)
        for seconds, latency_ms in ((STALLED, stalled_ms), (QUIET, quiet_ms))
        for second in seconds
        for op_class in one.classes
    ]


def heard(store: StandInStore) -> Witness:
    witnesses = take_picture(store, Thresholds()).witnesses
    return next(one for one in witnesses if one.name == "file system client")


def with_rows(one: Source, found: list[dict[str, Any]]) -> StandInStore:
    store = job(of_job(one))
    store.nodes["n1"].tables["fsclient"] = found
    return store


def test_every_collector_of_clients_is_in_the_table() -> None:
    """BeeGFS counts nothing and has no rows; its targets are heard as outages."""
    writers = {name for name, each in COLLECTORS.discover().items() if each.table == FSCLIENT.name}
    assert {one.collector for one in SOURCES} == writers - {"beegfs"}


@pytest.mark.parametrize("one", SOURCES, ids=NAMES)
def test_latency_above_its_own_baseline_agrees_and_no_latency_is_no_evidence(one: Source) -> None:
    found = heard(with_rows(one, rows(one, stalled_ms=40.0, quiet_ms=1.0)))
    if not one.times:
        assert found.agrees is None
        assert one.source in found.text
        return
    assert found.agrees is True
    assert f"{one.source} " in found.text
    assert "median 40.0 ms in stalled seconds, 1.0 ms in quiet ones" in found.text


@pytest.mark.parametrize("one", [one for one in SOURCES if one.times])
def test_latency_that_stays_does_not_agree(one: Source) -> None:
    found = heard(with_rows(one, rows(one, stalled_ms=4.0, quiet_ms=4.0)))
    assert found.agrees is False


@pytest.mark.parametrize("one", SOURCES, ids=NAMES)
def test_requests_in_flight_of_which_none_completes_agree(one: Source) -> None:
    """A server that hangs completes nothing and has no mean: the rows go on with ops 0."""
    hanging = dict.fromkeys(one.times)
    found = rows(one, 0.0, 0.0, **hanging)
    for row in found:
        is_stalled = row["mono_ns"] < QUIET[0] * NS
        if one.stalls_show and is_stalled:
            row |= {"ops": 0, "inflight": 8}
    said = heard(with_rows(one, found))
    assert said.agrees is (True if one.stalls_show else None)
    if one.stalls_show:
        assert "none completed in" in said.text


def test_requests_that_hang_in_quiet_seconds_too_say_nothing() -> None:
    nfs = SOURCES[0]
    found = rows(nfs, 0, 0, ops=0, inflight=1, rtt_ms=None, exe_ms=None)
    assert heard(with_rows(nfs, found)).agrees is None


def test_writes_do_not_speak_for_reads() -> None:
    nfs = SOURCES[0]
    found = rows(nfs, 40.0, 1.0)
    for row in found:
        row["op_class"] = "write"
    assert heard(with_rows(nfs, found)).agrees is None


def test_another_mount_of_the_type_is_not_heard_where_the_waited_one_has_rows() -> None:
    nfs = SOURCES[0]
    own = rows(nfs, 1.0, 1.0)
    other = [{**row, "mount": "/home"} for row in rows(nfs, 80.0, 1.0)]
    assert heard(with_rows(nfs, own + other)).agrees is False
    # One superblock mounted twice: its counters stand under the first mount's name.
    assert heard(with_rows(nfs, other)).agrees is True


def test_another_type_is_never_heard() -> None:
    """A slow NFS home says nothing of a job that waits for Lustre."""
    store = job("lustre")
    store.nodes["n1"].tables["fsclient"] = [
        {**row, "mount": "/home"} for row in rows(SOURCES[0], 80.0, 60.0)
    ]
    assert heard(store).agrees is None


def test_a_disk_that_completes_nothing_agrees_though_it_has_no_latency() -> None:
    store = job("xfs")
    node = store.nodes["n1"]
    node.meta["sources"]["block"] = {"state": "on", "leaves": {"/scratch": ["nvme0n1"]}}
    node.tables["block"] = [
        {"ts_ns": 1, "mono_ns": second * NS, "interval_ns": NS, "device": device, "role": "disk",
         "r_await": None, "inflight": 4, "stuck": device == "nvme0n1"}
        for second in STALLED
        for device in ("nvme0n1", "sda")
    ]  # fmt: skip
    witnesses = take_picture(store, Thresholds()).witnesses
    found = next(one for one in witnesses if one.name == "block device")
    assert found.agrees is True
    assert "nvme0n1 on n1: requests in flight and none completed" in found.text
    for row in node.tables["block"]:
        row["stuck"] = row["device"] == "sda"  # not the disk that is waited for
    witnesses = take_picture(store, Thresholds()).witnesses
    assert next(one for one in witnesses if one.name == "block device").agrees is None


def test_a_mount_above_its_baseline_speaks_before_one_that_is_always_slower() -> None:
    scratch = Source("nfs", "nfs4", "mountstats", ("read",))
    archive = Source("nfs", "nfs4", "mountstats", ("read",), mount="/archive")
    store = job("nfs4")
    for place, row in enumerate(store.nodes["n1"].tables["waits"]):
        if row.get("mount") and place % 3 == 0:
            row["mount"] = "/archive"
    store.nodes["n1"].tables["fsclient"] += rows(scratch, 30.0, 1.0) + rows(archive, 40.0, 40.0)
    found = next(
        one for one in take_picture(store, Thresholds()).witnesses if "client" in one.name
        and one.metric == "client_ms"
    )  # fmt: skip
    assert found.agrees is True
    assert "/scratch" in found.text
