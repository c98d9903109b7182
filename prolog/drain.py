"""Drain this node for a fault of its own, unless too many fail alike. The only place with Slurm
commands on a prolog's way, and never on the way of a healthy node.

As a rule it runs detached, after the prolog has exited (``python -m slurm_io.prolog.drain``), and
the node is drained some seconds later. With ``checks.drain_exit`` the prolog calls it itself.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slurm_io.config import Config, load
from slurm_io.errors import SlurmError, SlurmIoError
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.prolog import blast_radius
from slurm_io.prolog.node_memory import memory_folder, recall, remember
from slurm_io.slurm.node_state import Nodes, NodeState, ScontrolNodes

LOCK_FILE = "drain.lock"
_OUT_OF_SERVICE = frozenset({"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING"})


@dataclass(frozen=True)
class Fault:
    """What is wrong with the node: the check that says so and its line."""

    check: str
    text: str


def _to_syslog(text: str) -> None:
    import syslog

    syslog.openlog("slurm_io", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ALERT, text[:1000])


@dataclass(frozen=True)
class Site:
    """The world of one decision; tests put their own in."""

    config: Config
    node: str
    nodes: Nodes
    log: BoundedLog
    sleep: Callable[[float], None] = time.sleep
    now_s: Callable[[], float] = time.time
    alert: Callable[[str], None] = _to_syslog


def drain_or_alert(site: Site, faults: Sequence[Fault]) -> bool:
    """Announce, wait, look at all nodes, decide. True when the node is out of service now.

    Raises SlurmError, HostError: then nothing was drained.
    """
    with _only_one(site.config, site.node) as mine:
        if not mine:
            site.log.write("another prolog of this node is deciding about its drain")
            return False
        own = announce(site, [fault.check for fault in faults])
        if own.flags & _OUT_OF_SERVICE:
            site.log.write(f"not drained: the node is {own.state} already ({own.reason or '-'})")
            return True
        site.sleep(site.config.checks.settle_s)
        nodes = site.nodes.read()
        for fault in faults:
            ruling = blast_radius.rule(
                fault.check, site.node, nodes, site.config.checks, int(site.now_s())
            )
            if ruling.may_drain:
                return _drain(site, fault)
            _say_no(site, fault, ruling)
    return False


def announce(site: Site, checks: Sequence[str]) -> NodeState:
    """Put marks into the node's record; returns the record as it was. Raises SlurmError."""
    own = _own_record(site)
    now_s = int(site.now_s())
    marks = {**blast_radius.read_marks(own), **dict.fromkeys(checks, now_s)}
    field = blast_radius.mark_field(own)
    if field is None:
        site.log.write("cannot announce: Comment and Extra of this node are used by others")
        return own
    site.nodes.update(site.node, {field: blast_radius.mark_text(marks)})
    memory = recall(site.config, site.node)
    remember(site.config, site.node, replace(memory, marks=marks))
    return own


def clear_marks(site: Site, checks: Sequence[str]) -> None:
    """These checks pass again: take their marks back. Raises SlurmError, HostError."""
    own = _own_record(site)
    marks = blast_radius.read_marks(own)
    left = {check: at_s for check, at_s in marks.items() if check not in checks}
    field = blast_radius.mark_field(own)
    if field is not None and left != marks:
        site.nodes.update(site.node, {field: blast_radius.mark_text(left)})
    memory = recall(site.config, site.node)
    still_open = {check: until for check, until in memory.open.items() if check not in checks}
    remember(site.config, site.node, replace(memory, marks=left, open=still_open))


def _own_record(site: Site) -> NodeState:
    found = [each for each in site.nodes.read() if each.name == site.node]
    if not found:
        raise SlurmError(f"slurmctld knows no node {site.node}")
    return found[0]


def _drain(site: Site, fault: Fault) -> bool:
    reason = blast_radius.reason_text(fault.check, fault.text)
    site.nodes.update(site.node, {"State": "DRAIN", "Reason": reason})
    memory = recall(site.config, site.node)
    remember(site.config, site.node, replace(memory, reason=reason))
    site.log.write(f"drained: {reason}")
    return True


def _say_no(site: Site, fault: Fault, ruling: blast_radius.Ruling) -> None:
    text = f"{fault.check} fails on {site.node}, nothing is drained: {ruling.reason}; {fault.text}"
    site.log.write(f"ALERT {text}")
    site.alert(f"slurm_io: {text}")
    memory = recall(site.config, site.node)
    until_s = int(site.now_s() + site.config.checks.blast_window_s)
    remember(site.config, site.node, replace(memory, open={**memory.open, fault.check: until_s}))


@contextlib.contextmanager
def _only_one(config: Config, node: str) -> Iterator[bool]:
    """True for the one process of this node that may decide now."""
    with memory_folder(config, node, create=True) as folder:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(LOCK_FILE, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        try:
            yield mine
        finally:
            os.close(descriptor)


def main(arguments: Sequence[str] | None = None) -> int:
    """The detached process: ``--node NODE [--config FILE] [--fault CHECK TEXT] [--clear CHECK]``"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--node", required=True)
    parser.add_argument("--fault", nargs=2, action="append", default=[])
    parser.add_argument("--clear", action="append", default=[])
    given = parser.parse_args(arguments)
    config = load(given.config)
    log = BoundedLog(config.log_file, config.log_max_bytes, f"drain {given.node}")
    site = Site(config, given.node, ScontrolNodes(), log)
    try:
        if given.clear:
            clear_marks(site, given.clear)
            log.write(f"marks cleared: {', '.join(given.clear)} passed again")
        if given.fault:
            drain_or_alert(site, [Fault(check, text) for check, text in given.fault])
    except (SlurmIoError, OSError) as error:
        log.write(f"nothing drained: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
