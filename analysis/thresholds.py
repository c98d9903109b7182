"""Every number the analysis compares something with: default, unit, and why this default.

Shares are fractions of the job's training GPU-seconds unless the name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slurm_io import config
from slurm_io.analysis.rule_limits import RuleLimits, limits_of


@dataclass(frozen=True)
class Shares:
    """Which share of training a class must take before it gives the job its verdict."""

    data_storage: float = 0.03  # what the textbook calls the limit of a healthy input pipeline
    checkpoint: float = 0.01  # the textbook's limit for blocking checkpoints
    # A loader that prepares batches itself always costs something; below 5 % moving the work to
    # workers is not worth a change, and the textbook too flags (not only warns) from 5 %.
    data_cpu: float = 0.05
    data_pipeline: float = 0.05
    data_unknown: float = 0.03  # as storage: it might be storage
    together: float = 0.05  # many small losses are a loss
    elsewhere: float = 0.03  # time lost in collections or epoch boundaries: not storage


@dataclass(frozen=True)
class Enough:
    """How much there must be before anything is said."""

    verdict_steps: int = 20  # fewer: a single hiccup decides
    verdict_training_s: float = 5.0  # 50 sampler passes at 10 Hz; `wait_samples` guards the rest
    full_steps: int = 200  # the textbook's guard for rules; below it the report says "short"
    full_training_s: float = 600.0
    wait_samples: int = 10  # passes seen in a data wait before a cause is named
    cause_samples: int = 5  # of one cause before it is named: fewer may be strays


@dataclass(frozen=True)
class Variance:
    """When step times vary too much (F02)."""

    p99_over_p50: float = 3.0
    p99_minus_p50_s: float = 1.0
    p99_minus_p50_of_p50: float = 0.10
    slow_over_p50: float = 2.0  # a step this much above the median counts as slow
    explained_share: float = 0.5  # of a slow step's excess that must be waiting for storage
    aligned_share: float = 0.60  # of the slow steps that must be explained by storage
    lift: float = 3.0  # storage anomalies among slow steps over those among normal ones
    periodic_share: float = 0.5  # of slow steps with a collection, checkpoint or evaluation in them


@dataclass(frozen=True)
class Loader:
    """The loader's own cost of handing a batch over from a worker process."""

    handover_quantile: float = 0.10
    handover_cap_s: float = 0.005  # stock DataLoader on a slow machine: 1.7-2.7 ms a batch
    handover_usual_s: float = 0.002  # where every wait is longer than the cap
    handover_jitter: float = 3.0  # a wait up to this many times the quantile is ordinary


@dataclass(frozen=True)
class Sampling:
    """How thin samples are spread (attribution.py, shares.py)."""

    prior_passes: float = 2.0  # weight of the neighbourhood beside a second's own samples
    prior_bin_passes: float = 5.0  # weight of the job's mean beside a bin's samples
    neighbours: int = 21  # seconds of the same wait bin that make the neighbourhood
    interval_z: float = 1.96  # 95 %
    enough_seconds: int = 60_000  # of processes; a longer job is looked at in evenly spread ones
    most_thinning: int = 60
    # Samples are taken from outside: a class can be read a moment late, and a process woken from a
    # storage wait still queues for a CPU. Seen against known delays this moves shares by a few per
    # cent of themselves.
    systematic: float = 0.05


@dataclass(frozen=True)
class Lockstep:
    """When ranks count as one synchronous job."""

    start_jitter_steps: float = 0.5  # P90 of start differences, in median steps
    min_common_steps: int = 10
    min_common_share: float = 0.5
    heterogeneity: float = 0.10  # how much more than the holder another rank may compute


@dataclass(frozen=True)
class Witness:
    """When a second signal agrees that storage was slow."""

    expected_call_s: float = 0.001  # a read call or major fault on a healthy tier
    expected_bytes_per_s: float = 200e6
    latency_ratio: float = 3.0
    min_storage_s: float = 1.0
    block_await_ratio: float = 3.0  # r_await in stalled seconds over that in quiet ones
    block_await_floor_ms: float = 5.0
    block_await_limit_ms: float = 50.0  # above any healthy disk, whatever its baseline
    client_ratio: float = 3.0
    client_floor_ms: float = 5.0
    client_limit_ms: float = 50.0
    hanging_seconds: int = 2  # stalled ones in which requests were in flight and none completed
    hanging_share: float = 0.25  # of the stalled seconds
    outage_share: float = 0.25  # of the stalled seconds that lay in a client's outage
    outage_seconds: int = 3
    blkio_share: float = 0.5  # of the storage wait that the kernel's delay accounting saw too
    psi_share: float = 0.5  # PSI io "some" in stalled seconds
    psi_ratio: float = 3.0  # and over that in quiet seconds


@dataclass(frozen=True)
class ColdEpoch:
    """When the first pass over the data is the cold one and the later ones are warm."""

    min_span_s: float = 5.0  # of a pass: rows cover a second, borders blur
    min_waits: int = 10  # batches timed in a pass
    min_seen_share: float = 0.5  # of the workers' time, in every pass
    cold_share: float = 0.2  # of what was asked for that the first pass read from storage, at least
    cold_bytes_per_batch: float = 4096.0  # a page: less is metadata
    warm_over_cold: float = 0.2  # of the first pass's bytes a batch that later ones read, at most
    same_asked: float = 0.7  # of what the first pass asked for a batch that later ones ask for
    cpu_of_gain: float = 0.5  # more CPU a batch in the first pass than this part of what it waited
    wait_ratio: float = 2.0  # first pass's wait a batch over the later ones'
    wait_gain_s: float = 0.001
    wait_gain_share: float = 0.03  # of the first pass's time a batch, as the limit of data waits
    same_wait: float = 0.8  # later waits above this part of the first's: reading was not the cause


@dataclass(frozen=True)
class Stacks:
    """How much stacks must show before they stand for a hook that is not there."""

    # Windows are what is counted, and how much they differ is only known from several: with five
    # degrees of freedom Student's t is 2.6, with two it is 4.3. Of six windows one hits what took
    # 40 % of the time, which is as much as a job must lose for anybody to look at so short a run.
    windows: int = 6
    looks: int = 150  # 10 Hz for half of these windows' 30 s: others were torn, or looks rarer
    vague_share: float = 0.30  # of looks that show nothing known: the rest is no picture any more


@dataclass(frozen=True)
class Thresholds:
    """All of them."""

    shares: Shares = field(default_factory=Shares)
    enough: Enough = field(default_factory=Enough)
    variance: Variance = field(default_factory=Variance)
    loader: Loader = field(default_factory=Loader)
    sampling: Sampling = field(default_factory=Sampling)
    lockstep: Lockstep = field(default_factory=Lockstep)
    witness: Witness = field(default_factory=Witness)
    cold: ColdEpoch = field(default_factory=ColdEpoch)
    rules: RuleLimits = field(default_factory=RuleLimits)
    stacks: Stacks = field(default_factory=Stacks)


def of_site(site: config.Thresholds) -> Thresholds:
    """The defaults with what the site's configuration file says under ``[thresholds]``."""
    return Thresholds(
        shares=replace(
            Shares(),
            data_storage=site.data_share,
            data_unknown=site.data_share,
            checkpoint=site.checkpoint_share,
            together=site.storage_share,
            elsewhere=site.collections_share,
        ),
        variance=replace(
            Variance(),
            p99_over_p50=site.step_spread_ratio,
            p99_minus_p50_s=site.step_spread_s,
            p99_minus_p50_of_p50=site.step_spread_share,
        ),
        rules=limits_of(site),
    )
