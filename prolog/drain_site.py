"""The world of one decision about a node's drain: Slurm's node table, the log, the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from slurm_io.config import Config
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.records import dataclass
from slurm_io.slurm.node_state import Nodes


def to_syslog(text: str) -> None:
    """One line at priority alert."""
    import syslog

    syslog.openlog("slurm_io", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ALERT, text[:1000])


@dataclass(frozen=True)
class Fault:
    """What is wrong with the node: the check that says so and its line. `drains` False: the site
    only stops jobs for it, but whether many nodes fail alike concerns it as well."""

    check: str
    text: str
    drains: bool = True


@dataclass(frozen=True)
class Site:
    """What a decision looks at and acts on; tests put their own in."""

    config: Config
    node: str
    nodes: Nodes
    log: BoundedLog
    sleep: Callable[[float], None] = time.sleep
    now_s: Callable[[], float] = time.time
    alert: Callable[[str], None] = to_syslog
