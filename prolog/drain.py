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
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slurm_io.config import Config, load
from slurm_io.errors import SlurmError, SlurmIoError
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.prolog import blast_radius
from slurm_io.prolog.drain_site import Fault, Site
from slurm_io.prolog.node_memory import memory_folder, recall, remember
from slurm_io.prolog.wave import take_back
from slurm_io.slurm.node_state import NodeState, ScontrolNodes

LOCK_FILE = "drain.lock"
_OUT_OF_SERVICE = frozenset({"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING"})


def drain_or_alert(site: Site, faults: Sequence[Fault]) -> bool:
    """Announce, wait, look at all nodes, decide. True when the node is out of service now.

    A fault that only stops jobs goes the same way but for the drain. Raises SlurmError, HostError:
    then nothing was drained.
    """
    with _only_one(site.config, site.node) as mine:
        if not mine:
            site.log.write("another prolog of this node is deciding about its drain")
            return False
        own = announce(site, faults)
        if own.flags & _OUT_OF_SERVICE:
            site.log.write(f"not drained: the node is {own.state} already ({own.reason or '-'})")
            return True
        site.sleep(site.config.checks.settle_s)
        nodes = site.nodes.read()
        for fault in sorted(faults, key=lambda each: not each.drains):
            ruling = _rule(site, fault, nodes)
            if ruling.may_drain and fault.drains:
                _drain(site, fault)
                return not _is_of_a_wave(site, fault)
            _say_no(site, fault, ruling, nodes)
    return False


def announce(site: Site, faults: Sequence[Fault]) -> NodeState:
    """Put marks into the node's record; returns the record as it was. Raises SlurmError."""
    own = _own_record(site)
    now_s = int(site.now_s())
    checks = [fault.check for fault in faults]
    marks = {**blast_radius.read_marks(own), **dict.fromkeys(checks, now_s)}
    # The reason of a drain that stands already must stay known as ours.
    stands = "DRAIN" in own.flags
    reasons = {} if stands else {fault.check: _reason(fault) for fault in reversed(faults)}
    field = blast_radius.mark_field(own)
    if field is None:
        site.log.write("cannot announce: Comment and Extra of this node are used by others")
        return own
    site.nodes.update(site.node, {field: blast_radius.mark_text(marks, own, reasons)})
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
        site.nodes.update(site.node, {field: blast_radius.mark_text(left, own, {})})
    memory = recall(site.config, site.node)
    still_open = {check: until for check, until in memory.open.items() if check not in checks}
    remember(site.config, site.node, replace(memory, marks=left, open=still_open))


def _own_record(site: Site) -> NodeState:
    own = site.nodes.read_one(site.node)
    if own is None:
        raise SlurmError(f"slurmctld knows no node {site.node}")
    return own


def _reason(fault: Fault) -> str:
    return blast_radius.reason_text(fault.check, fault.text)


def _rule(site: Site, fault: Fault, nodes: Sequence[NodeState]) -> blast_radius.Ruling:
    return blast_radius.rule(fault.check, site.node, nodes, site.config.checks, int(site.now_s()))


def _drain(site: Site, fault: Fault) -> None:
    reason = _reason(fault)
    site.nodes.update(site.node, {"State": "DRAIN", "Reason": reason})
    memory = recall(site.config, site.node)
    remember(site.config, site.node, replace(memory, reason=reason))
    site.log.write(f"drained: {reason}")


def _is_of_a_wave(site: Site, fault: Fault) -> bool:
    """Look again after the drain: who announced between our look and our drain saw no drain of ours
    to take back. True when we took it back ourselves."""
    try:
        nodes = site.nodes.read()
    except SlurmError as error:
        site.log.write(f"drained, and could not look again whether others fail alike: {error}")
        return False
    ruling = _rule(site, fault, nodes)
    return ruling.is_wave and site.node in _say_no(site, fault, ruling, nodes)


def _say_no(
    site: Site, fault: Fault, ruling: blast_radius.Ruling, nodes: Sequence[NodeState]
) -> tuple[str, ...]:
    """The guard's word: alert, take back what was drained too early, and let jobs run. The nodes
    that were given back. Nothing for a fault that only stops jobs, unless many fail alike."""
    if not fault.drains and not (ruling.is_wave and len(ruling.failing) > 1):
        return ()
    back = take_back(site, fault.check, ruling.failing, nodes) if ruling.is_wave else ()
    given = f"; given back: {', '.join(back)}" if back else ""
    text = (
        f"{fault.check} fails on {site.node}, nothing is drained: {ruling.reason}{given}; "
        f"{fault.text}"
    )
    site.log.write(f"ALERT {text}")
    site.alert(f"slurm_io: {text}")
    memory = recall(site.config, site.node)
    until_s = int(site.now_s() + site.config.checks.blast_window_s)
    remember(site.config, site.node, replace(memory, open={**memory.open, fault.check: until_s}))
    return back


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
    """The detached process: ``--node NODE [--config FILE] [--fault CHECK TEXT] [--stopped CHECK
    TEXT] [--clear CHECK]``, `stopped` being a fault that stops jobs and drains nothing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--node", required=True)
    parser.add_argument("--fault", nargs=2, action="append", default=[])
    parser.add_argument("--stopped", nargs=2, action="append", default=[])
    parser.add_argument("--clear", action="append", default=[])
    given = parser.parse_args(arguments)
    config = load(given.config)
    log = BoundedLog(config.log_file, config.log_max_bytes, f"drain {given.node}")
    site = Site(config, given.node, ScontrolNodes(), log)
    try:
        if given.clear:
            clear_marks(site, given.clear)
            log.write(f"marks cleared: {', '.join(given.clear)} passed again")
        faults = [Fault(check, text) for check, text in given.fault]
        faults += [Fault(check, text, drains=False) for check, text in given.stopped]
        if faults:
            drain_or_alert(site, faults)
    except (SlurmIoError, OSError) as error:
        log.write(f"nothing drained: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
