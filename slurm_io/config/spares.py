"""Sections about staging and spare nodes: stage, spares, and one for each reservation."""

from __future__ import annotations

from slurm_io.config.settings import Setting, _key
from slurm_io.records import dataclass


@dataclass(frozen=True)
class StageConfig:
    """[stage]: how datasets are copied to nodes."""

    engines: tuple[str, ...] = _key(
        ("peer", "s3", "path"),
        Setting("kinds of source, best first", "a healthy neighbour is nearest"),
    )
    streams: int = _key(
        8, Setting("files copied at once, all sources together", "one stream fills no link", "", 1)
    )
    bandwidth_bytes_s: int = _key(
        0, Setting("most that one target may receive; 0 = no limit", "idle links", "B/s", 0)
    )
    free_share: float = _key(
        0.05, Setting("of the file system, kept free", "file systems slow down full", "share", 0, 1)
    )
    debris_age_s: float = _key(
        6 * 3600.0,
        Setting(
            "what killed copies left behind is removed from this age", "none runs so long", "s"
        ),
    )
    time_limit_s: float = _key(
        86400.0, Setting("a staging job on a node ends after this", "a day for 24 TB", "s", 60)
    )
    donors: int = _key(
        4, Setting("nodes that one target copies from at once, at most", "fills a link", "", 1, 64)
    )
    training_donor_bytes_s: int = _key(
        500_000_000,
        Setting(
            "most that a node on which a job runs gives to others; 0 = such a node gives nothing",
            "its own reads come first",
            "B/s",
            0,
        ),
    )
    peer_host: str = _key(
        "",
        Setting(
            "name by which nodes reach each other for data, as %N-ib0; empty = Slurm's NodeAddr",
            "one network",
        ),
    )


@dataclass(frozen=True)
class SparesConfig:
    """[spares]: when a spare node takes over, and who decides."""

    policy: str = _key(
        "suggest",
        Setting(
            "the watch says what it would do (suggest) or does it (auto)",
            "people first",
            choices=("suggest", "auto"),
        ),
    )
    period_s: float = _key(
        30.0, Setting("time between two looks of the watch", "cheap for slurmctld", "s", 1, 3600)
    )
    grace_s: float = _key(
        60.0, Setting("a node must look bad for so long", "blips pass", "s", 0, 86400)
    )
    standstill_nodes: int = _key(
        2,
        Setting(
            "with more bad nodes than this nothing is done", "then it is no node's fault", "", 1
        ),
    )
    health_age_s: float = _key(
        600.0, Setting("a health answer older than this is asked again", "10 min", "s", 1)
    )
    ask_s: float = _key(
        30.0, Setting("time limit of one question to a node", "hung nodes", "s", 1, 600)
    )
    reach: str = _key(
        "auto",
        Setting(
            "how nodes are asked: srun --no-allocate (direct), short jobs and steps (jobs), or "
            "direct where Slurm has no Prolog (auto); docs/staging-through-slurm.md",
            "a Prolog may take a node for empty",
            choices=("auto", "direct", "jobs"),
        ),
    )
    clear_s: float = _key(
        300.0, Setting("a spare must be clear of filler jobs in this time", "KillWait", "s", 1)
    )
    start_s: float = _key(
        900.0, Setting("a job must run again in this time", "else a person is called", "s", 10)
    )
    lock_s: float = _key(
        120.0, Setting("a lock that nobody renewed for so long is free", "killed swaps", "s", 5)
    )
    lemon_count: int = _key(
        3, Setting("a node that failed more often in 30 days is a lemon", "retire it", "", 1)
    )
    failures_per_node_week: float = _key(
        0.03, Setting("expected, where no history tells", "published fleets", "1/week", 0)
    )
    covered_h: float = _key(
        24.0, Setting("time until a used-up spare is replaced", "a day's repair", "h", 0.1)
    )
    image_file: str = _key(
        "",
        Setting(
            "file on each node whose first line names its image; empty = /etc/os-release",
            "where one system image serves all",
            is_path=True,
        ),
    )
    alert_command: str = _key(
        "",
        Setting(
            "program called with one line of text when a person is needed",
            "none by default",
            is_path=True,
        ),
    )


@dataclass(frozen=True)
class ReservationConfig:
    """[reservation.NAME]: the spare nodes of one Slurm reservation.

    Its spares are its nodes on which no protected job runs, and `standby`. A protected job is any
    that is not filler.
    """

    dataset: str = _key(
        "", Setting("NAME or NAME@CONTENT-ID that its nodes must hold", "the run's dataset")
    )
    tier: str = _key(
        "local", Setting("which copy", "spares hold it themselves", choices=("local", "shared"))
    )
    standby: str = _key(
        "", Setting("further nodes, outside the reservation, as a hostlist", "none by default")
    )
    needed: int = _key(
        1, Setting("spares that should be ready at any time", "plan spares tells", "", 0)
    )
    filler_qos: tuple[str, ...] = _key(
        (), Setting("jobs of these QOS are filler: they give way to a swap", "preemptible work")
    )
    filler_partitions: tuple[str, ...] = _key(
        (), Setting("jobs of these partitions are filler", "preemptible work")
    )
    filler_end: str = _key(
        "requeue",
        Setting(
            "how filler leaves a spare that is needed: requeued (and held until the swap is over), "
            "or cancelled",
            "nothing of it is lost",
            choices=("requeue", "cancel"),
        ),
    )
    filler_script: str = _key(
        "",
        Setting(
            "batch script kept running on each ready spare; empty = none",
            "none by default",
            is_path=True,
        ),
    )
    filler_user: str = _key("", Setting("account that the filler script runs as", "never root"))
    feature: bool = _key(
        False,
        Setting(
            "keep node feature ds_DATASET_VERSION in step with what nodes hold",
            "jobs may then ask for it by --constraint",
        ),
    )
