"""F18: NFS requests are sent again, or wait for a slot before they are sent.

What it flags
-------------
The NFS client sends more than 1 % of its operations again, or its operations wait longer for a
slot on the client than for the server's answer.

Why it matters
--------------
Both make a fast server look slow, and neither is mended on the server. A request sent again costs
seconds (the client waits its ``timeo`` first); too few slots put a ceiling on what one node can
read, whatever the server could give.

Evidence
--------
The kernel's own counters for each mount and class of operations (/proc/self/mountstats, as
``nfsiostat`` shows them): retransmissions, and the mean of the wait before sending against that of
the round trip. Only seconds of training, weighted by operations.

What to do
----------
Sent again: look at the path between this node and the server (errors and drops of the network card,
its link, one bad cable or switch port); one node alone points at the node, all at the server or
network. Waiting for slots: more connections (``nconnect``) and more slots.

Known false alarms
------------------
A server that restarts or fails over during the job makes every client send again: then it is all
nodes in one short span. Counters are the node's, so another job on it may be the cause. With NFS
over UDP a few in a thousand are normal. Operations wait for slots too while a server hangs; then
the round trip is long as well, and this rule stays quiet.

Thresholds
----------
``thresholds.nfs_retrans_share`` (1 % of operations, and at least 20), ``thresholds.nfs_queue_ms``
(5 ms, and longer than the round trip, over at least 200 operations).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rule_limits import Nfs
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    Severity,
    no_rows,
    shortness,
    sure,
)
from slurm_io.analysis.similar import mount_types

_COLUMNS = ("mount", "fstype", "op_class", "ops", "retrans", "rtt_ms", "queue_ms")
_NFS = ("nfs", "nfs4")


@dataclass(frozen=True)
class _Mount:
    """What the clients of all nodes say of one mount in training."""

    mount: str
    ops: int
    retrans: int | None
    queue_ms: float | None
    rtt_ms: float | None
    nodes_resending: tuple[str, ...]
    nodes: int


@RULES.register("f18_nfs_retransmissions")
class NfsRetransmissions:
    """NFS requests are sent again or wait for a slot."""

    code = "F18"
    title = "NFS retransmissions, or too few slots"
    needs: Needs = "watch"

    def judge(self, picture: Picture) -> Answer:
        """One finding for each mount and kind of trouble."""
        limits = picture.thresholds.rules.nfs
        seen = _mounts(picture, limits)
        if not seen:
            quiet = Answer("quiet", "no NFS mount was in use")
            return no_rows("fsclient") if _may_be_on_nfs(picture) else quiet
        found = [
            finding
            for mount in seen
            for finding in (_resending(picture, mount, limits), _queueing(picture, mount, limits))
            if finding is not None
        ]
        if found:
            return Answer("fired", findings=tuple(found))
        told = [mount for mount in seen if mount.retrans is not None]
        if not told and all(mount.queue_ms is None for mount in seen):
            return Answer("not enough evidence", "the NFS client told neither resends nor waits")
        total = sum(mount.ops for mount in told)
        again = sum(mount.retrans or 0 for mount in told)
        return Answer("quiet", f"{again} of {total} NFS operations were sent again")


def _may_be_on_nfs(picture: Picture) -> bool:
    """Whether the job waited for an NFS mount; where nobody saw it wait, whether there is one."""
    if picture.watch.is_training:
        return bool(picture.where.fstypes & set(_NFS))
    return not set(_NFS).isdisjoint(mount_types(picture.store).values())


def _mounts(picture: Picture, limits: Nfs) -> list[_Mount]:
    read = rows_between(picture.tables, picture.watch.spans, "fsclient", _COLUMNS)
    rows = read.rows.filter(pl.col("fstype").is_in(_NFS) & pl.col("ops").is_not_null())
    by_node = rows.group_by("mount", "node").agg(
        pl.col("ops").sum(),
        pl.col("retrans").sum().alias("again"),
        pl.col("retrans").count().alias("told"),
        *(_weighted(name) for name in ("queue_ms", "rtt_ms")),
        *(_weight(name) for name in ("queue_ms", "rtt_ms")),
    )
    return [
        _mount(mount, mine, read.every, limits)
        for (mount,), mine in sorted(by_node.partition_by("mount", as_dict=True).items())
        if mine["ops"].sum() > 0
    ]


def _weighted(name: str) -> pl.Expr:
    """Sum of a mean over the operations it is of: what an interval with many tells weighs more."""
    return (pl.col(name) * pl.col("ops")).sum().alias(name)


def _weight(name: str) -> pl.Expr:
    return pl.col("ops").filter(pl.col(name).is_not_null()).sum().alias(f"{name}_ops")


def _mount(mount: str, nodes: pl.DataFrame, every: int, limits: Nfs) -> _Mount:
    sums: dict[str, Any] = nodes.select(pl.exclude("mount", "node").sum()).row(0, named=True)
    resending = nodes.filter(
        (pl.col("again") * every >= limits.least_retrans)
        & (pl.col("again") >= limits.retrans_share * pl.col("ops"))
    )
    return _Mount(
        mount=mount,
        ops=int(sums["ops"]) * every,
        retrans=int(sums["again"]) * every if sums["told"] else None,
        queue_ms=sums["queue_ms"] / sums["queue_ms_ops"] if sums["queue_ms_ops"] else None,
        rtt_ms=sums["rtt_ms"] / sums["rtt_ms_ops"] if sums["rtt_ms_ops"] else None,
        nodes_resending=tuple(sorted(resending["node"])),
        nodes=nodes.height,
    )


def _resending(picture: Picture, mount: _Mount, limits: Nfs) -> Finding | None:
    if not mount.nodes_resending or mount.retrans is None:
        return None
    share = mount.retrans / mount.ops
    who = f"{len(mount.nodes_resending)} of {mount.nodes} nodes"
    alone = mount.nodes > 1 and len(mount.nodes_resending) <= mount.nodes // 2
    side = "these nodes' own links" if alone else "the server or the network before it"
    return Finding(
        rule="F18",
        severity=_severity(picture),
        confidence=sure(1 + _is_awaited(picture, mount)),
        title=f"NFS requests to {mount.mount} are sent again",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(nodes=mount.nodes_resending, mounts=(mount.mount,)),
        evidence=(
            Evidence(
                f"{mount.retrans} of {mount.ops} operations were sent again ({share:.1%}), "
                f"on {who}",
                "nfs_retrans_share", share, limits.retrans_share,
            ),
            *_awaited(picture, mount),
            *shortness(picture),
        ),
        remedy=f"look at {side}: errors and drops of the network card, link speed, cable, switch "
        "port",
        commands=(
            f"nfsiostat 1 5 {shlex.quote(mount.mount)}",
            "nstat -az TcpRetransSegs TcpExtTCPTimeouts",
            "ethtool -S IFACE | grep -iE 'err|drop|discard|crc'",
        ),
    )  # fmt: skip


def _queueing(picture: Picture, mount: _Mount, limits: Nfs) -> Finding | None:
    queue, rtt = mount.queue_ms, mount.rtt_ms
    if queue is None or rtt is None or mount.ops < limits.least_ops:
        return None
    if queue < max(limits.queue_ms, limits.queue_over_rtt * rtt):
        return None
    quoted = shlex.quote(mount.mount)
    text = (
        f"an operation waited {queue:.1f} ms for a slot and {rtt:.1f} ms for the server "
        f"(means over {mount.ops} operations)"
    )
    return Finding(
        rule="F18",
        severity=_severity(picture),
        confidence=sure(1 + _is_awaited(picture, mount)),
        title=f"NFS requests to {mount.mount} wait on the client, not for the server",
        lost_gpu_s=None,
        where=Place(mounts=(mount.mount,)),
        evidence=(
            Evidence(text, "nfs_queue_ms", queue, max(limits.queue_ms, rtt)),
            *_awaited(picture, mount),
            *shortness(picture),
        ),
        remedy="more connections to the server (mount option nconnect, up to 16) and more slots; "
        "both need a new mount",
        commands=(
            f"nfsstat -m  # look for nconnect= of {mount.mount}",
            f"umount {quoted} && mount -o nconnect=8 SERVER:/EXPORT {quoted}  # no remount does it",
            "cat /sys/module/nfs/parameters/max_session_slots  # NFS 4.1: 64 by default",
            "sysctl sunrpc.tcp_max_slot_table_entries  # NFS 3",
        ),
    )


def _is_awaited(picture: Picture, mount: _Mount) -> bool:
    """Whether training lost time to storage, and the samples were on this mount."""
    on_it = any(one.mount == mount.mount and one.share >= 0.10 for one in picture.where.mounts)
    return on_it and picture.loses_to_storage


def _awaited(picture: Picture, mount: _Mount) -> list[Evidence]:
    if not picture.watch.is_training:
        return [Evidence("whether training waited for it is not known", "data_storage_share")]
    if not _is_awaited(picture, mount):
        return [Evidence("training did not wait for this mount", "data_storage_share", 0.0)]
    share = picture.data_storage.value
    text = f"training waited for storage, this mount among it, {share:.1%} of its GPU time"
    return [Evidence(text, "data_storage_share", share, picture.thresholds.shares.data_storage)]


def _severity(picture: Picture) -> Severity:
    return "warn" if picture.loses_to_storage else "info"
