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
    clock_offset_s: float = 0.5  # between nodes, told from; the report's times are whole seconds
    clock_sure: float = 3.0  # times its uncertainty that an offset must be to be corrected


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
    device_share: float = 0.5  # of the storage wait that reads spent in the device
    psi_share: float = 0.5  # PSI io "some" in stalled seconds
    psi_ratio: float = 3.0  # and over that in quiet seconds


@dataclass(frozen=True)
class Alignment:
    """When drops of throughput line up with slow storage (alignment/)."""

    false_alarm: float = 0.01  # of jobs whose drops have nothing to do with storage
    drop: float = 0.25  # throughput below the run's own by so much is a drop
    spike_ratio: float = 3.0  # a latency so many times the series' median is a spike,
    spike_floor_ms: float = 5.0  # from here on
    least_episodes: int = 3  # drops, and spikes: one of each can meet by chance
    # p is at least 1 / (reach + 1), reach a third of the run: below 100 s it cannot reach 1 %.
    least_reach: int = 100
    most_reach: int = 600  # a row that is a second or two late still leaves p below 1 %
    most_bins: int = 100_000
    most_seconds: int = 1_500_000  # of all nodes; beyond that bins get wider and rows fewer
    most_series: int = 16  # tested by shifting: those with most spikes
    lift: float = 3.0  # spikes in drops over spikes elsewhere, as the textbook has it
    explained: float = 0.2  # of the drops that meet a spike beyond chance, before storage is named
    # "Not storage" needs: nothing near significant, and that less than half of the drops may meet.
    apart_p: float = 0.1
    apart_share: float = 0.5
    looked_share: float = 0.8  # of the bins of drops that had a row of latencies
    interval_z: float = 1.96


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
class Saves:
    """What is known of saves beside the job itself, and when something is said of them."""

    node_mtbf_s: float | None = None  # key node_mtbf_h; of one node
    possible_bytes_per_s: float | None = None  # key checkpoint_gb_s
    least_saves: int = 3  # fewer: a cost or an interval from them is noise
    # Without a known one, what a job may meet: lemon nodes, a large job, a small one.
    mtbf_table_s: tuple[float, ...] = (6 * 3600.0, 86_400.0, 7 * 86_400.0)
    gain: float = 0.005  # of all time: less is not worth a change, the optimum is flat
    slow_share: float = 0.25  # of what was possible, the textbook's limit
    least_bytes: int = 10**8  # smaller saves are latency, not bandwidth
    least_cycles: int = 6  # saves in the background before their effect on reads is tested
    turns: int = 1999
    best_s: int = 3  # a mount's best is held for so long


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
class Site:
    """What else a site says. `rule_dir`: folder of its own rules, "" = none; `price_usd_h`: dollars
    per GPU hour of jobs that name no price."""

    rule_dir: str = ""
    price_usd_h: float | None = None


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
    alignment: Alignment = field(default_factory=Alignment)
    saves: Saves = field(default_factory=Saves)
    rules: RuleLimits = field(default_factory=RuleLimits)
    stacks: Stacks = field(default_factory=Stacks)
    site: Site = field(default_factory=Site)


def of_config(site: config.Config) -> Thresholds:
    """As :func:`of_site`, with the site's own rules and its price."""
    price = site.rules.price_usd_h
    return replace(
        of_site(site.thresholds),
        site=Site(site.rules.site_dir, price if price > 0 else None),
    )


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
        saves=replace(
            Saves(),
            node_mtbf_s=site.node_mtbf_h * 3600 or None,
            possible_bytes_per_s=site.checkpoint_gb_s * 1e9 or None,
        ),
    )
