"""Sections about our own parts: sampler, hook, prolog, epilog, store, policy, thresholds."""

from __future__ import annotations

from slurm_io.config.settings import Setting, _key
from slurm_io.model import STACKS_SHARE, SamplerSpec
from slurm_io.records import dataclass


@dataclass(frozen=True)
class SamplerConfig:
    """[sampler]: the resident process, one per node and job."""

    enabled: bool = _key(True, Setting("start a sampler at all", "it is what the product does"))
    interval_s: float = _key(
        SamplerSpec.interval_s,
        Setting("time between two counter samples", "as iostat 1", "s", 0.1, 60),
    )
    waits_hz: float = _key(
        SamplerSpec.waits_hz,
        Setting("looks at what ranks and workers wait for", "±3 % after a minute", "1/s", 0.5, 50),
    )
    capacity_period_s: float = _key(
        SamplerSpec.capacity_period_s,
        Setting("time between two statvfs of the job's mounts", "space moves slowly", "s", 5, 3600),
    )
    budget_share: float = _key(
        SamplerSpec.budget_share,
        Setting("share of one core the sampler may use", "no job feels 0.3 %", "share", 0.0005, 1),
    )
    stacks_share: float = _key(
        STACKS_SHARE,
        Setting(
            "further share of one core for py-spy in jobs with profile=full; 0 = never",
            "1 % with the rest",
            "share",
            0,
            0.1,
        ),
    )
    stacks_as_root: bool = _key(
        False,
        Setting(
            "run py-spy as root where the kernel (Yama) refuses the job's user",
            "it reads memory that a user controls: a fault in it would be the user's way to root",
        ),
    )
    spool_max_bytes: int = _key(
        SamplerSpec.spool_max_bytes,
        Setting("largest spool of one job on one node", "a week at 8 ranks", "B", 1 << 20, 1 << 40),
    )
    idle_exit_s: float = _key(
        SamplerSpec.idle_exit_s,
        Setting("end when no process of the job was seen for so long", "lost epilogs", "s", 5),
    )
    max_lifetime_s: float = _key(
        SamplerSpec.max_lifetime_s,
        Setting("end after this time in any case", "longer than any job", "s", 60),
    )
    collectors_off: tuple[str, ...] = _key(
        (), Setting("collectors never to start", "all are cheap enough to run")
    )


@dataclass(frozen=True)
class HookConfig:
    """[hook]: the library that attaches itself to the job's Python processes."""

    enabled: bool = _key(
        True, Setting("put the hook on PYTHONPATH", "some µs a step; users can say SLURM_IO_HOOK=0")
    )


@dataclass(frozen=True)
class PrologConfig:
    """[prolog]: what slurmd runs as root before a job."""

    deadline_s: float = _key(
        3.0,
        Setting(
            "after this time the prolog gives up and lets the job start",
            "users are told 'Prolog hung' after 8 s (MessageTimeout 10)",
            "s",
            0.5,
            30,
        ),
    )
    systemd: str = _key(
        "auto",
        Setting(
            "start the sampler as a systemd unit (auto: where systemd runs) or with setsid (never)",
            "a unit of its own survives slurmd and is not charged to it",
            choices=("auto", "never"),
        ),
    )


@dataclass(frozen=True)
class EpilogConfig:
    """[epilog]: what happens after a job, detached from slurmd."""

    grace_s: float = _key(
        120.0,
        Setting("how long the first node waits for the others", "staggered seals", "s", 0, 3600),
    )
    time_limit_s: float = _key(
        1800.0,
        Setting("sealing, delivery and analysis end after this", "hung file systems", "s", 10),
    )
    sampler_stop_s: float = _key(
        10.0, Setting("a stopped sampler is killed after this", "its contract is 1 s", "s", 1, 300)
    )
    retention_s: float = _key(
        14 * 86400.0,
        Setting("undelivered data is kept in the spool so long", "holidays", "s", 3600),
    )


@dataclass(frozen=True)
class StoreConfig:
    """[store]: the site's own copy, beside the user's; off unless both are set."""

    site_path: str = _key(
        "", Setting("folder of the site's store; empty = none", "needs an owner", is_path=True)
    )
    service_user: str = _key(
        "", Setting("account that writes the site's store", "root is squashed on most mounts")
    )


@dataclass(frozen=True)
class PolicyConfig:
    """[policy]: what follows from what a job asked for. A user's mistake never drains a node."""

    bad_request: str = _key(
        "warn",
        Setting(
            "a malformed slurm-io: request is only logged (record), told in the job's output "
            "(warn), or fails the job with a message (stop)",
            "the job is worth more than its profile",
            choices=("record", "warn", "stop"),
        ),
    )
    allow_dataset_paths: bool = _key(
        False, Setting("accept dataset=/path besides names", "root should not probe any path")
    )


@dataclass(frozen=True)
class Thresholds:
    """[thresholds]: where a share of training time becomes a finding."""

    data_share: float = _key(
        0.03, Setting("waiting for data", "MLPerf-like target: 97 % busy", "share", 0, 1)
    )
    checkpoint_share: float = _key(
        0.01, Setting("blocking checkpoints", "asynchronous saving gets there", "share", 0, 1)
    )
    storage_share: float = _key(
        0.05, Setting("data and checkpoints together", "sum of both with slack", "share", 0, 1)
    )
    step_spread_ratio: float = _key(
        3.0, Setting("P99 / P50 of the step time", "a healthy loop is below 1.5", "", 1)
    )
    step_spread_s: float = _key(
        1.0, Setting("and P99 − P50 at least this", "short steps jitter by nature", "s", 0)
    )
    step_spread_share: float = _key(
        0.1, Setting("and P99 − P50 at least this share of P50", "long steps", "share", 0, 10)
    )
    collections_share: float = _key(
        0.03, Setting("garbage collections a step waited for", "as waiting for data", "share", 0, 1)
    )
    space_saves: float = _key(
        2.0, Setting("checkpoints that must still fit", "one more than the next", "", 1, 100)
    )
    nfs_retrans_share: float = _key(
        0.01, Setting("NFS operations sent again", "a healthy network needs none", "share", 0, 1)
    )
    nfs_queue_ms: float = _key(
        5.0, Setting("mean wait of an NFS operation for a slot", "far above a free one", "ms", 0)
    )
    gpu_slowed_share: float = _key(
        0.1, Setting("of a busy GPU's time, slowed by heat or power", "peaks pass", "share", 0, 1)
    )
    cpu_throttled_share: float = _key(
        0.1, Setting("of training, throttled by a CPU quota", "bursts pass", "share", 0, 1)
    )
    cpu_pressure_share: float = _key(
        0.3, Setting("of training, tasks waiting for a CPU", "forks cause a few %", "share", 0, 1)
    )
    shm_share: float = _key(
        0.95,
        Setting("shared memory in use, of what it may hold", "the rest is slack", "share", 0, 1),
    )
    growth_share: float = _key(
        0.1, Setting("growth of memory over training", "allocators settle below", "share", 0, 100)
    )
    small_read_bytes: int = _key(
        65536, Setting("mean read below which reads are small", "latency rules", "B", 1)
    )
    device_busy_share: float = _key(
        0.2, Setting("of a device's read rate: idle below", "far from its limit", "share", 0, 1)
    )
    one_node_share: float = _key(
        0.8,
        Setting("of a save's bytes, written by one node", "sharded saves spread", "share", 0, 1),
    )
    straggler_share: float = _key(
        0.5,
        Setting("of the lost time, held by one rank or node", "half is no chance", "share", 0, 1),
    )
    collective_share: float = _key(
        0.2,
        Setting("of looks, ranks waiting in a collective", "the exchange itself", "share", 0, 1),
    )
    load_s: float = _key(10.0, Setting("a model load is slow from", "people notice", "s", 0))
    node_mtbf_h: float = _key(
        0.0, Setting("mean time between failures of one node; 0: not known", "yours", "h", 0)
    )
    checkpoint_gb_s: float = _key(
        0.0,
        Setting("what one job can write to checkpoints' storage; 0: not known", "yours", "GB/s", 0),
    )
    released_files: int = _key(
        1, Setting("files of the dataset not on the fast tier", "each stops all ranks", "count", 1)
    )
    shared_file_bytes: int = _key(
        1 << 30, Setting("size of a file that one OST is too few for", "site guides", "B", 1 << 20)
    )
    shared_file_nodes: int = _key(
        8, Setting("and nodes that read it at once", "one OST feeds a few", "count", 2)
    )
    reread_share: float = _key(
        0.5,
        Setting(
            "of what the first pass read from storage, read again by each later one",
            "half of the data is not held",
            "share",
            0,
            1,
        ),
    )
    padding_share: float = _key(
        0.3, Setting("of the tokens of a batch, padding", "packing is worth it", "share", 0, 1)
    )
    alike_nodes: int = _key(
        2, Setting("nodes that fail a check alike, by chance", "three share a cause", "count", 1)
    )
    alike_share: float = _key(
        0.05,
        Setting("or this share of the nodes that looked", "as checks.blast_share", "share", 0, 1),
    )
    verified_age_h: float = _key(
        24.0,
        Setting("a copy nobody looked at for so long is old", "a day, as for spares", "h", 0),
    )
    unfinished_save_s: float = _key(
        600.0,
        Setting("a save without its end counts so long after the job", "drains end", "s", 0),
    )


@dataclass(frozen=True)
class RulesConfig:
    """[rules]: rules of the site's own, and what a GPU hour costs."""

    site_dir: str = _key(
        "",
        Setting(
            "folder of *.toml with site rules; empty = none", "docs/site-rules.md", is_path=True
        ),
    )
    price_usd_h: float = _key(
        0.0,
        Setting(
            "dollars per GPU hour of jobs that name no price; 0 = not known",
            "only the site knows",
            "USD",
            0,
            100_000,
        ),
    )
