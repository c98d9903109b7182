"""A client's counters as the classes of the fsclient table, seen from two sides.

llite counts what applications ask for, page-cache hits included; osc and mdc count what went over
the wire. Their ratio tells readahead that was not used (above 1) from caching (below 1).
"""

from __future__ import annotations

from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.lustre.stats import Counter, Stats

# What may have to ask a server. Not among them: what memory answers (seek, mmap, inode_permission,
# alloc_inode, getxattr_hits, ioctl) and page faults, whose size nobody counts.
_META = frozenset(
    {
        "open", "close", "readdir", "setattr", "getattr", "truncate", "flock", "fallocate", "fsync",
        "create", "link", "unlink", "symlink", "mkdir", "rmdir", "mknod", "rename", "statfs",
        "lookup", "setxattr", "getxattr", "listxattr", "removexattr",
    }
)  # fmt: skip
PAGE_FAULTS = ("page_fault", "page_mkwrite")

_WAIT = "req_waittime"
# RPCs of the client's own making: they go on while no application asks for anything.
_OWN_RPCS = frozenset(
    {
        "obd_ping", "obd_log_cancel", "ldlm_cancel", "ldlm_convert", "ost_connect",
        "ost_disconnect", "mds_connect", "mds_disconnect", "mds_get_root", "mgs_connect",
        "mgs_disconnect", "seq_query", "fld_query", "fld_read", "llog_origin_handle_create",
        "llog_origin_handle_next_block", "llog_origin_handle_read_header", "quota_acquire",
        "quota_release",
    }
)  # fmt: skip


def application_view(stats: Stats) -> dict[OpClass, ClientCounters]:
    """llite's counters: calls, bytes returned or taken, and from 2.14 on their whole time."""
    counters = stats.counters
    return {
        "read": _calls(counters.get("read"), counters.get("read_bytes")),
        "write": _calls(counters.get("write"), counters.get("write_bytes")),
        "meta": _sum([found for name, found in counters.items() if name in _META]),
    }


def wire_view(stats: Stats) -> dict[OpClass, ClientCounters]:
    """An osc's or mdc's counters: RPCs, bytes moved, and the time from sending to the reply.

    On an mdc, reads and writes are of data that lies on the MDT. ``meta`` is what is left of
    req_waittime, the time of all RPCs, without reads, writes and the client's own: lock enqueues
    (opens) and reints (creates, renames) have no line of their own in older versions.
    """
    counters = stats.counters
    read = _rpcs(counters.get("ost_read"), counters.get("read_bytes"))
    write = _rpcs(counters.get("ost_write"), counters.get("write_bytes"))
    waited = counters.get(_WAIT)
    if waited is None:
        return {"read": read, "write": write, "meta": ClientCounters(ops=0, rtt_ns=0)}
    own = [found for name, found in counters.items() if name in _OWN_RPCS]
    others = [*own, *filter(None, (counters.get("ost_read"), counters.get("ost_write")))]
    ops = waited.samples - sum(found.samples for found in others)
    times = [waited.time_ns, *(found.time_ns for found in others)]
    known = [time for time in times if time is not None]
    rtt_ns = 2 * known[0] - sum(known) if len(known) == len(times) else None
    # The lines are written one after the other while RPCs end: the difference may be below zero.
    meta = ClientCounters(ops=max(0, ops), rtt_ns=None if rtt_ns is None else max(0, rtt_ns))
    return {"read": read, "write": write, "meta": meta}


def _calls(timed: Counter | None, sized: Counter | None) -> ClientCounters:
    """Calls with a time count as the time's line says, so that the mean is theirs."""
    moved_bytes = 0 if sized is None else sized.sum
    if timed is not None and timed.time_ns is not None:
        return ClientCounters(ops=timed.samples, bytes=moved_bytes, exe_ns=timed.time_ns)
    ops = 0 if sized is None else sized.samples
    return ClientCounters(ops=ops, bytes=moved_bytes, exe_ns=0 if ops == 0 else None)


def _rpcs(timed: Counter | None, sized: Counter | None) -> ClientCounters:
    return ClientCounters(
        ops=0 if timed is None else timed.samples,
        bytes=0 if sized is None else sized.sum,
        rtt_ns=0 if timed is None else timed.time_ns,
    )


def _sum(found: list[Counter]) -> ClientCounters:
    times = [one.time_ns for one in found if one.samples]
    known = [time for time in times if time is not None]
    return ClientCounters(
        ops=sum(one.samples for one in found),
        exe_ns=sum(known) if len(known) == len(times) else None,
    )
