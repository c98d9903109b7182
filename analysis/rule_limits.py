"""Numbers that single rules compare with: default, unit, and why this default.

Those with a key under ``[thresholds]`` say so with its name; :func:`limits_of` puts the site's in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slurm_io import config


@dataclass(frozen=True)
class Space:
    """F05."""

    saves: float = 2.0  # key space_saves


@dataclass(frozen=True)
class Nfs:
    """F18."""

    retrans_share: float = 0.01  # key nfs_retrans_share; of operations
    least_retrans: int = 20  # fewer are one lost packet's worth
    queue_ms: float = 5.0  # key nfs_queue_ms; a local slot is free in microseconds
    queue_over_rtt: float = 1.0  # waiting for a slot costs at least as much as the server
    least_ops: int = 200


@dataclass(frozen=True)
class GpuSlowed:
    """F20."""

    share: float = 0.10  # key gpu_slowed_share; of the looks at a busy GPU
    busy: float = 0.5  # utilisation from which a look counts: an idle GPU lowers clocks by itself
    least_looks: int = 30
    clock_ratio: float = 0.85  # SM clock against the median of its kind
    link_share: float = 0.90  # of busy looks with a link below its maximum
    least_peers: int = 3  # other GPUs of its kind before a median of them says anything


@dataclass(frozen=True)
class HostCpu:
    """F22."""

    throttled_share: float = 0.10  # key cpu_throttled_share; of the seconds of training
    pressure_share: float = 0.30  # key cpu_pressure_share; of training, tasks waiting for a CPU
    least_rows: int = 20


@dataclass(frozen=True)
class Workers:
    """F23."""

    shm_share: float = 0.95  # key shm_share; of what shared memory may take
    memory_share: float = 0.98  # of the job's memory limit: the kernel kills next


@dataclass(frozen=True)
class Growth:
    """F09."""

    share: float = 0.10  # key growth_share; of what it held after warm-up
    least_bytes: int = 256 * 2**20  # a Python process grows by less of its own accord
    steps: int = 1000  # the textbook's guard
    parts: int = 10  # the training is cut into so many
    rising_share: float = 0.8  # of the parts that hold more than the one before
    slower_ratio: float = 1.10  # median step of the last third over that of the first
    large_share: float = 0.20  # of a node's memory, shared memory from the start


@dataclass(frozen=True)
class SmallReads:
    """F16."""

    read_bytes: int = 65_536  # key small_read_bytes; mean of a read call while storage was awaited
    least_calls: int = 100
    meta_share: float = 0.5  # of the client's time in read and meta operations
    fault_share: float = 0.5  # of the storage samples


@dataclass(frozen=True)
class ShallowQueue:
    """F07."""

    device_share: float = 0.20  # key device_busy_share; of what the device can read
    queue: float = 2.0  # requests in the device on the mean
    queue_per_rank: float = 0.3  # below it the wait is not in the device but before it
    fast_await_ms: dict[str, float] = field(
        default_factory=lambda: {"nvme": 1.0, "ssd": 2.0, "disk": 15.0}
    )
    # What such a device reads in large requests, bytes/s: PCIe 4 NVMe, SATA SSD, hard disk.
    read_bytes_per_s: dict[str, float] = field(
        default_factory=lambda: {"nvme": 3e9, "ssd": 5e8, "disk": 1.5e8}
    )
    least_rows: int = 10


@dataclass(frozen=True)
class OneNode:
    """F03."""

    bytes_share: float = 0.80  # key one_node_share; of what all nodes wrote in saves
    least_bytes: int = 100 * 10**6


@dataclass(frozen=True)
class Straggler:
    """F15."""

    held_share: float = 0.50  # key straggler_share; of the lost time, held by one rank or node
    over_fair: float = 2.0  # and so many times its fair part
    over_others: float = 1.5  # its waits over the other ranks': less is no straggler, only the last
    least_ranks: int = 3


@dataclass(frozen=True)
class Collective:
    """F21."""

    share: float = 0.20  # key collective_share; of looks that found the other ranks in a collective
    ratio: float = 3.0  # they are there so many times as often as the straggler
    least_looks: int = 50
    least_ranks: int = 3


@dataclass(frozen=True)
class Loading:
    """F06."""

    seconds: float = 10.0  # key load_s
    rate_share: float = 0.5  # of what the medium should give
    expected_bytes_per_s: float = 1e9  # one reader of a shared file system or a local NVMe
    storage_share: float = 0.30  # of the samples taken in loads
    least_samples: int = 20


@dataclass(frozen=True)
class Eviction:
    """F08."""

    files: int = 1  # key released_files


@dataclass(frozen=True)
class Stripes:
    """F10."""

    file_bytes: int = 2**30  # key shared_file_bytes
    nodes: int = 8  # key shared_file_nodes
    imbalance: float = 3.0  # bytes on the fullest OST over their mean on the OSTs in use
    least_files: int = 20  # of the largest files: a few lie unevenly by chance
    least_osts: int = 4


@dataclass(frozen=True)
class PageCache:
    """F17."""

    reread_share: float = 0.5  # key reread_share
    same_asked: float = 0.7  # of what the first pass asked for a batch that later ones ask for
    least_bytes: int = 256 * 2**20  # of a pass: less fits into any memory
    least_span_s: float = 5.0  # of a pass: rows cover a second, borders blur
    same_files: int = 2  # seen in two passes: then they read the same
    own_files: float = 0.75  # of them on the same node: then each node reads its own part again
    least_same: int = 4  # before that is said


@dataclass(frozen=True)
class Padding:
    """F24."""

    share: float = 0.3  # key padding_share
    least_looks: int = 10
    least_tokens: int = 50_000


@dataclass(frozen=True)
class SameFault:
    """F14, and F11 that leaves such faults to it. A job of fewer nodes shows no pattern."""

    nodes: int = 2  # key alike_nodes; more are no chance
    share: float = 0.05  # key alike_share; of the nodes that looked
    least_nodes: int = 3

    def most(self, seen: int) -> int:
        """How many of `seen` nodes may fail alike and be no pattern. One never is."""
        return min(self.nodes, max(1, int(self.share * seen)))


@dataclass(frozen=True)
class StaleCopy:
    """F12."""

    age_s: float = 24 * 3600.0  # key verified_age_h


@dataclass(frozen=True)
class SavedWhole:
    """F13."""

    unfinished_s: float = 600.0  # key unfinished_save_s


@dataclass(frozen=True)
class RuleLimits:
    """All of them."""

    space: Space = field(default_factory=Space)
    nfs: Nfs = field(default_factory=Nfs)
    gpu: GpuSlowed = field(default_factory=GpuSlowed)
    cpu: HostCpu = field(default_factory=HostCpu)
    workers: Workers = field(default_factory=Workers)
    growth: Growth = field(default_factory=Growth)
    small: SmallReads = field(default_factory=SmallReads)
    shallow: ShallowQueue = field(default_factory=ShallowQueue)
    one_node: OneNode = field(default_factory=OneNode)
    straggler: Straggler = field(default_factory=Straggler)
    collective: Collective = field(default_factory=Collective)
    loading: Loading = field(default_factory=Loading)
    eviction: Eviction = field(default_factory=Eviction)
    stripes: Stripes = field(default_factory=Stripes)
    cache: PageCache = field(default_factory=PageCache)
    padding: Padding = field(default_factory=Padding)
    alike: SameFault = field(default_factory=SameFault)
    stale: StaleCopy = field(default_factory=StaleCopy)
    saved: SavedWhole = field(default_factory=SavedWhole)


def limits_of(site: config.Thresholds) -> RuleLimits:
    """The defaults with what the site's configuration file says under ``[thresholds]``."""
    return RuleLimits(
        space=replace(Space(), saves=site.space_saves),
        nfs=replace(Nfs(), retrans_share=site.nfs_retrans_share, queue_ms=site.nfs_queue_ms),
        gpu=replace(GpuSlowed(), share=site.gpu_slowed_share),
        cpu=replace(
            HostCpu(),
            throttled_share=site.cpu_throttled_share,
            pressure_share=site.cpu_pressure_share,
        ),
        workers=replace(Workers(), shm_share=site.shm_share),
        growth=replace(Growth(), share=site.growth_share),
        small=replace(SmallReads(), read_bytes=site.small_read_bytes),
        shallow=replace(ShallowQueue(), device_share=site.device_busy_share),
        one_node=replace(OneNode(), bytes_share=site.one_node_share),
        straggler=replace(Straggler(), held_share=site.straggler_share),
        collective=replace(Collective(), share=site.collective_share),
        loading=replace(Loading(), seconds=site.load_s),
        eviction=replace(Eviction(), files=site.released_files),
        stripes=replace(Stripes(), file_bytes=site.shared_file_bytes, nodes=site.shared_file_nodes),
        cache=replace(PageCache(), reread_share=site.reread_share),
        padding=replace(Padding(), share=site.padding_share),
        alike=replace(SameFault(), nodes=site.alike_nodes, share=site.alike_share),
        stale=replace(StaleCopy(), age_s=site.verified_age_h * 3600),
        saved=replace(SavedWhole(), unfinished_s=site.unfinished_save_s),
    )
