"""Sections about what is proved before a job starts: the checks, and the datasets they look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.config.settings import Setting, _key
from slurm_io.records import dataclass, field


@dataclass(frozen=True)
class ChecksConfig:
    """[checks]: what is proved before a job starts. Each check has its own [check.NAME] as well."""

    enabled: bool = _key(
        True, Setting("run checks in the prolog", "data is what nobody else checks")
    )
    deadline_s: float = _key(
        2.0,
        Setting(
            "checks that have not answered by then read UNKNOWN",
            "must stay below prolog.deadline_s",
            "s",
            0.1,
            30,
        ),
    )
    jitter_s: float = _key(
        0.5,
        Setting(
            "checks of shared data wait up to so long first", "jobs start in bursts", "s", 0, 5
        ),
    )
    blast_nodes: int = _key(
        2, Setting("one check may drain so many nodes", "more is a shared fault", "count", 0, 1000)
    )
    blast_share: float = _key(
        0.05, Setting("and at most this share of all nodes", "a bad rule", "share", 0, 1)
    )
    blast_window_s: float = _key(
        600.0, Setting("counted over this time", "jobs start at different times", "s", 10, 86400)
    )
    settle_s: float = _key(
        2.0,
        Setting(
            "a node about to drain waits so long for others", "faults come at once", "s", 0, 30
        ),
    )
    drain_exit: bool = _key(
        False,
        Setting(
            "a drained node's prolog exits 1 (Slurm requeues the job, held) instead of failing the "
            "job's tasks with a message; needs prolog.deadline_s of at least deadline_s + settle_s "
            "+ 1.3 (deadline_s: the longest of any check)",
            "held jobs need a person",
        ),
    )


@dataclass(frozen=True)
class CheckConfig:
    """[check.NAME]: one check's policy; further keys are the check's own (docs/checks.md)."""

    policy: str = _key(
        "",
        Setting(
            "what a FAIL does: record, warn (message in the job's output), stop (and its tasks "
            "fail), drain (the node; node faults only); empty = the check's default",
            "sites differ",
            choices=("", "record", "warn", "stop", "drain"),
        ),
    )
    enabled: bool = _key(True, Setting("run this check", "it costs little"))
    deadline_s: float = _key(
        0.0, Setting("its own deadline; 0 = checks.deadline_s", "slow file systems", "s", 0, 30)
    )


@dataclass(frozen=True)
class CheckSettings:
    """One check's table: what all checks share, and the rest as written in the file."""

    common: CheckConfig = field(default_factory=CheckConfig)
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetConfig:
    """[dataset.NAME]: one dataset of the admin's registry.

    Paths may hold %N (short host name), %n and %h (Slurm's node name), %u (the job's user), %j (job
    id) and %% as in slurm.conf.
    """

    local: str = _key(
        "",
        Setting(
            "its folder on the node's own disks; empty = not kept there",
            "the admin says where",
            is_path=True,
        ),
    )
    shared: str = _key(
        "",
        Setting(
            "its folder on a shared file system; empty = none", "the admin says where", is_path=True
        ),
    )
    manifest: str = _key(
        "",
        Setting("its manifest (slurm-io dataset manifest build)", "the only truth", is_path=True),
    )
    content_id: str = _key(
        "",
        Setting("version that jobs get unless they name one; empty = the manifest's", "one truth"),
    )
    tier: str = _key(
        "any",
        Setting(
            "where jobs must find it",
            "any: local if a folder is set",
            choices=("any", "local", "shared"),
        ),
    )
    level: int = _key(2, Setting("how deep the prolog verifies (0 to 3)", "about 1 s", "", 0, 3))
    layout: str = _key(
        "auto",
        Setting(
            "judge Lustre layouts (auto) or not (off)",
            "where it is Lustre",
            choices=("auto", "off"),
        ),
    )
    readers: int = _key(
        0,
        Setting(
            "nodes that read it at once; 0 = the job's own", "layout advice", "count", 0, 100000
        ),
    )
