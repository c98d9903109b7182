"""Every table of a job store: the single source of truth for names, types, units and meaning.

docs/schema.md is generated from this module and checked for freshness. Writers
(:mod:`slurm_io.store.streams`) and readers (:mod:`slurm_io.store.reader`) take their Arrow
schemas from here, so a column exists in one place only.

Two clocks head every row: ``ts_ns`` (UTC, nanoseconds since the epoch) for people and for joining
nodes, ``mono_ns`` (CLOCK_MONOTONIC of that node) for joining the tables of one node. A rate or a
delta covers the ``interval_ns`` before the row's clock. Unknown is null; the reason stands in
``meta.json`` under ``sources``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 1

ColumnType = Literal["int64", "int32", "float64", "float32", "string", "bool"]


@dataclass(frozen=True)
class Column:
    """One column. `unit` is empty for names, counts and flags; shares are 0..1."""

    name: str
    type: ColumnType
    unit: str
    doc: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """One table. `key` names the columns that, with ``ts_ns``, make a row unique on its node."""

    name: str
    key: tuple[str, ...]
    doc: str
    columns: tuple[Column, ...]

    def column_names(self) -> tuple[str, ...]:
        """Column names in storage order, the two clocks first."""
        return tuple(column.name for column in self.columns)


CLOCKS = (
    Column("ts_ns", "int64", "ns", "UTC time of the row, nanoseconds since 1970", False),
    Column("mono_ns", "int64", "ns", "CLOCK_MONOTONIC of the node at the same moment", False),
)


def _i64(name: str, unit: str, doc: str, nullable: bool = True) -> Column:
    return Column(name, "int64", unit, doc, nullable)


def _i32(name: str, unit: str, doc: str, nullable: bool = True) -> Column:
    return Column(name, "int32", unit, doc, nullable)


def _f32(name: str, unit: str, doc: str) -> Column:
    return Column(name, "float32", unit, doc)


def _text(name: str, doc: str, nullable: bool = True) -> Column:
    return Column(name, "string", "", doc, nullable)


def _flag(name: str, doc: str) -> Column:
    return Column(name, "bool", "", doc)


_INTERVAL = _i64("interval_ns", "ns", "length of the interval the row covers", False)

BLOCK = Table(
    "block",
    ("device",),
    "Block devices as `iostat -dx` shows them, from /proc/diskstats. Only devices that did I/O or "
    "had I/O in flight in the interval have a row; the list of all devices is in meta.json.",
    (
        *CLOCKS,
        _INTERVAL,
        _text("device", "kernel name, e.g. nvme0n1", False),
        _text("role", "disk | partition | md | dm | mpath | loop", False),
        _text("parent", "whole disk of a partition, head of an NVMe path; else null"),
        _f32("r_s", "1/s", "reads completed"),
        _f32("rkB_s", "kB/s", "read volume (1 kB = 1024 B, as iostat)"),
        _f32("rrqm_s", "1/s", "reads merged"),
        _f32("r_await", "ms", "mean time of a completed read; null when none completed"),
        _f32("rareq_sz", "kB", "mean size of a completed read; null when none completed"),
        _f32("w_s", "1/s", "writes completed"),
        _f32("wkB_s", "kB/s", "write volume"),
        _f32("wrqm_s", "1/s", "writes merged"),
        _f32("w_await", "ms", "mean time of a completed write; null when none completed"),
        _f32("wareq_sz", "kB", "mean size of a completed write; null when none completed"),
        _f32("d_s", "1/s", "discards completed; null before kernel 4.18"),
        _f32("dkB_s", "kB/s", "discard volume"),
        _f32("drqm_s", "1/s", "discards merged"),
        _f32("d_await", "ms", "mean time of a completed discard"),
        _f32("dareq_sz", "kB", "mean size of a completed discard"),
        _f32("f_s", "1/s", "flushes completed; null before kernel 5.5 and on partitions"),
        _f32("f_await", "ms", "mean time of a completed flush"),
        _f32("aqu_sz", "", "mean number of requests queued or in service"),
        _f32("util", "%", "share of the interval with at least one request in flight (0..100+)"),
        _i32("inflight", "", "requests in flight at the moment of the row"),
        _flag("stuck", "requests in flight for the whole interval and none completed"),
    ),
)

FSCLIENT = Table(
    "fsclient",
    ("mount", "source", "op_class"),
    "What a file system client says of one mount and one class of operations. Local file systems "
    "have no rows: their I/O is that of their devices in `block`, whose mounts meta.json names.",
    (
        *CLOCKS,
        _INTERVAL,
        _text(
            "mount",
            "mount point; * = all mounts of that type, where the client does not tell them apart",
            False,
        ),
        _text("fstype", "as in /proc/self/mountinfo (GPUDirect Storage: nvidia-fs)", False),
        _text("source", "which counter the row comes from, e.g. mountstats", False),
        _text(
            "op_class",
            "read | write | meta (all others) | any (what the client does not tell apart)",
            False,
        ),
        _i64("ops", "", "operations completed in the interval"),
        _i64("bytes", "B", "payload moved in the interval"),
        _f32("rtt_ms", "ms", "mean time from sending to reply"),
        _f32("exe_ms", "ms", "mean time from issue to completion, queue included"),
        _f32("queue_ms", "ms", "mean time before sending"),
        _i64("retrans", "", "retransmissions in the interval"),
        _i64("errors", "", "failed operations in the interval"),
        _i32("inflight", "", "operations in flight at the moment of the row"),
    ),
)

CAPACITY = Table(
    "capacity",
    ("mount",),
    "Space and inodes of the mounts the job uses, from statvfs in a killable child; every 30 s.",
    (
        *CLOCKS,
        _text("mount", "mount point", False),
        _text("fstype", "as in /proc/self/mountinfo", False),
        _i64("size_bytes", "B", "size of the file system"),
        _i64("used_bytes", "B", "size minus free"),
        _i64("avail_bytes", "B", "what an ordinary user may still write"),
        _i64("inodes", "", "inodes in all; null where the file system has no fixed number"),
        _i64("inodes_avail", "", "inodes an ordinary user may still create"),
    ),
)

NODE = Table(
    "node",
    (),
    "The whole node: CPU, memory, pressure (PSI), network.",
    (
        *CLOCKS,
        _INTERVAL,
        _f32("cpu_user_share", "share", "user + nice time, base: all CPUs of the node"),
        _f32("cpu_system_share", "share", "system + irq + softirq time, same base"),
        _f32("cpu_iowait_share", "share", "idle with I/O outstanding, same base; misses FUSE, NFS"),
        _f32("cpu_steal_share", "share", "stolen by the hypervisor, same base"),
        _i32("procs_running", "", "runnable tasks at the moment of the row"),
        _i32("procs_blocked", "", "tasks blocked on I/O at the moment of the row"),
        _i64("mem_total_bytes", "B", "MemTotal"),
        _i64("mem_available_bytes", "B", "MemAvailable"),
        _i64("cached_bytes", "B", "Cached (page cache, tmpfs included)"),
        _i64("shmem_bytes", "B", "Shmem"),
        _i64("dirty_bytes", "B", "Dirty"),
        _i64("writeback_bytes", "B", "Writeback"),
        _i64("swap_used_bytes", "B", "SwapTotal - SwapFree"),
        _i64("pgmajfault", "", "major faults in the interval"),
        _i64("psi_cpu_some_ns", "ns", "PSI cpu some: stalled time in the interval"),
        _i64("psi_io_some_ns", "ns", "PSI io some"),
        _i64("psi_io_full_ns", "ns", "PSI io full"),
        _i64("psi_memory_some_ns", "ns", "PSI memory some"),
        _i64("psi_memory_full_ns", "ns", "PSI memory full"),
        _i64("net_rx_bytes", "B", "received on all interfaces but lo in the interval"),
        _i64("net_tx_bytes", "B", "sent on all interfaces but lo in the interval"),
        _i64("ib_rx_bytes", "B", "received on all InfiniBand ports in the interval"),
        _i64("ib_tx_bytes", "B", "sent on all InfiniBand ports in the interval"),
    ),
)

CGROUP = Table(
    "cgroup",
    ("path",),
    "The job's control group on this node, v1 or v2.",
    (
        *CLOCKS,
        _INTERVAL,
        _text("path", "path below the cgroup root", False),
        _i32("version", "", "1 or 2", False),
        _i64("cpu_ns", "ns", "CPU time used in the interval"),
        _i64("throttled_ns", "ns", "time throttled by the CPU quota in the interval"),
        _i64("throttled_periods", "", "quota periods throttled in the interval"),
        _i64("mem_current_bytes", "B", "memory charged"),
        _i64("mem_limit_bytes", "B", "nearest limit on the way up; null when there is none"),
        _i64("mem_anon_bytes", "B", "anonymous memory"),
        _i64("mem_file_bytes", "B", "page cache charged"),
        _i64("mem_shmem_bytes", "B", "shared memory charged"),
        _i64("read_bytes", "B", "block devices only, in the interval"),
        _i64("write_bytes", "B", "block devices only, in the interval"),
        _i64("psi_io_some_ns", "ns", "PSI io some of the group (v2)"),
        _i64("psi_cpu_some_ns", "ns", "PSI cpu some of the group (v2)"),
        _i64("psi_memory_some_ns", "ns", "PSI memory some of the group (v2)"),
    ),
)

PROCESS = Table(
    "process",
    ("pid", "starttime"),
    "Processes of the job, from /proc/PID/stat and io. Counters are deltas over the interval, "
    "which is longer for a process that did nothing in its last row: up to five ticks.",
    (
        *CLOCKS,
        _INTERVAL,
        _i32("pid", "", "process id in the sampler's namespace", False),
        _i64("starttime", "ticks", "stat field 22: with pid the identity of a process", False),
        _i32("rank", "", "global rank it belongs to; null outside any rank"),
        _text("role", "rank | worker | other", False),
        _text("comm", "stat field 2", False),
        _i64("cpu_ns", "ns", "user + system time"),
        _i64("rss_bytes", "B", "resident set"),
        _i32("threads", "", "number of threads"),
        _i64("minflt", "", "minor faults"),
        _i64("majflt", "", "major faults"),
        _i64("blkio_delay_ns", "ns", "delay accounting; null where the kernel has it off"),
        _i64("rchar_bytes", "B", "bytes through read-like calls, page cache and pipes included"),
        _i64("wchar_bytes", "B", "bytes through write-like calls"),
        _i64("syscr", "", "read-like calls"),
        _i64("syscw", "", "write-like calls"),
        _i64("read_bytes", "B", "fetched from storage; which file systems count it: docs/reads.md"),
        _i64("write_bytes", "B", "sent to the storage layer"),
        _i64(
            "main_ns",
            "ns",
            "CPU time of its main thread alone: the mean since the row before that has one, some "
            "seconds to a minute; null in between and where it is not counted",
        ),
        _i64(
            "queue_ns",
            "ns",
            "time its main thread was ready to run and waited for a CPU; the same mean",
        ),
    ),
)

WAIT_CLASSES = ("storage", "net", "pipe", "lock", "sleep", "cpu", "gpu", "other", "unknown")
PHASES = ("data_wait", "ckpt", "load", "step", "none")

WAITS = Table(
    "waits",
    ("rank", "role", "phase", "loader", "mount"),
    "What the processes of a rank were doing, sampled several times a second and summed over about "
    "a second. One pass adds one sample for each process of that role (a process counts once, by "
    "its most telling thread). Storage samples stand in one row per mount; the samples of all "
    "other classes in the row whose mount is null. Where the governor slows the passes, a look at "
    "a rank in its step, and at its workers then, stands for the passes of the next two seconds; "
    "slower still, a pass looks at a part of the ranks, and the others have no row then.",
    (
        *CLOCKS,
        _INTERVAL,
        _i32("rank", "", "global rank; null for processes outside any rank"),
        _text("role", "rank (its own process) | worker (its descendants) | other", False),
        _text("phase", "what the rank was in: " + " | ".join(PHASES), False),
        _i32("loader", "", "loader id of a data_wait; else null"),
        _text("mount", "mount point that held the storage samples; null = not known or no storage"),
        _text("fstype", "file system type of that mount"),
        _text("path", "the file most often waited for"),
        _text("wchan", "the kernel function most often slept in among the storage samples"),
        _i32("passes", "", "looks at the rank that found it in this phase", False),
        _i32("processes", "", "processes of this role seen in the last of these passes", False),
        *(_i32(f"n_{name}", "", f"samples of class {name}", False) for name in WAIT_CLASSES),
        _i32("n_fault", "", "storage samples that were page faults (no system call)", False),
    ),
)

STEPS = Table(
    "steps",
    ("pid", "loader", "epoch", "batch"),
    "One row per batch a rank asked its loader for, from the in-process hook. mono_ns is the "
    "moment the wait began. A training step runs from one row's mono_ns to the next of that "
    "loader.",
    (
        *CLOCKS,
        _i32("pid", "", "process id", False),
        _i32("rank", "", "global rank; null when the process names none"),
        _i32("loader", "", "id of the loader within the process", False),
        _i32("epoch", "", "how often this loader was started, from 0", False),
        _i32("batch", "", "index of the batch within the epoch, from 0", False),
        _i64("step", "", "optimizer steps the process had made before the wait", False),
        _i64("last_step_mono_ns", "ns", "end of the last optimizer step; null when none yet"),
        _i64("data_wait_ns", "ns", "time blocked in the loader's __next__", False),
        _i64(
            "gpu_idle_ns",
            "ns",
            "0: the GPU had work all the time; null: gpu_waits has it, or it was not measured",
        ),
        _i64("batch_bytes", "B", "size of the batch; null when not measured"),
        Column("padding_share", "float32", "share", "not used: see events of the kind padding"),
        _flag("first", "first batch of an epoch (worker start-up included)"),
        _flag("workers", "the loader has worker processes"),
        _flag("cuda", "CUDA was initialised in the process"),
    ),
)

GPU_WAITS = Table(
    "gpu_waits",
    ("pid", "loader", "epoch", "batch"),
    "What the GPU says of a wait in `steps`: one row for each wait at whose end it had nothing to "
    "do, by a pair of events on the current stream (docs/gpu-proof.md). mono_ns is the wait's, "
    "the row comes some steps later.",
    (
        *CLOCKS,
        _i32("pid", "", "process id", False),
        _i32("rank", "", "global rank; null when the process names none"),
        _i32("loader", "", "id of the loader within the process", False),
        _i32("epoch", "", "as in steps", False),
        _i32("batch", "", "as in steps", False),
        _i64("gpu_idle_ns", "ns", "of the wait, time the GPU had nothing to do", False),
    ),
)

EVENTS = Table(
    "events",
    ("pid", "kind"),
    "Things with a start and an end: checkpoints, loads, epochs, garbage collections, errors.",
    (
        *CLOCKS,
        _i32("pid", "", "process id", False),
        _i32("rank", "", "global rank"),
        _text(
            "kind",
            "loader | epoch_start | epoch_end | ckpt_save | ckpt_async | "
            "ckpt_background | load | gc | exit | error | padding",
            False,
        ),
        _i64("end_mono_ns", "ns", "CLOCK_MONOTONIC at the end (mono_ns is the start)", False),
        _flag("blocking", "the training thread waited for it"),
        _flag("failed", "it ended in an exception"),
        _i64("bytes", "B", "bytes written or read, where known"),
        _text("path", "file or folder"),
        _text("detail", "JSON: what else the hook knows (loader settings, exception class)"),
        _i64("step", "", "optimizer steps made before it", False),
    ),
)

STACKS = Table(
    "stacks",
    ("pid", "state", "sub"),
    "What ranks and loader workers executed, by py-spy, in windows of some seconds: one row for "
    "each second, state and sub-state that had samples. Seconds without rows were not looked at.",
    (
        *CLOCKS,
        _INTERVAL,
        _i32("rank", "", "global rank; of a worker its rank's"),
        _i32("pid", "", "process id", False),
        _text("role", "rank | worker, as the stack shows", False),
        _text("state", "data_wait | ckpt | collective | compute | import | gc | other", False),
        _text(
            "sub",
            "of a worker: reading | decoding | transform | collate | idle | put-blocked | unknown; "
            "of a data_wait also workers | receiving | epoch | dispatcher; of a ckpt: async; of "
            "others: gpu | metadata | restore | waiting | start-up; null = nothing more is known",
        ),
        _i32("samples", "", "looks that showed it", False),
        _i32("certain", "", "of them, those in which a known frame decided", False),
        _text("why", "the frame that decided most often"),
        _text("folded", "root;...;leaf of the most frequent stack"),
    ),
)

GPU = Table(
    "gpu",
    ("gpu", "mig"),
    "The job's GPUs and MIG instances. Temperature, PCIe link, ECC and remapped rows are looked at "
    "every 10 s and repeated between. Why a column is null stands in meta.json.",
    (
        *CLOCKS,
        _INTERVAL,
        _i32("gpu", "", "number on the node as nvidia-smi shows it: by PCI address", False),
        _text("mig", "GPU instance/compute instance of a MIG instance; null = the whole GPU"),
        _text("uuid", "vendor's id of the GPU or the instance"),
        _text("parent_uuid", "the GPU a MIG instance is part of; else null"),
        _f32("util_share", "share", "of the driver's last sample period with a kernel resident"),
        _f32("mem_util_share", "share", "of that period in which device memory was accessed"),
        _f32("sm_active_share", "share", "SMs with work in the interval (GPM; base: all SMs)"),
        _f32("tensor_active_share", "share", "tensor pipes in use in the interval (GPM)"),
        _f32("dram_active_share", "share", "memory bandwidth used in the interval (GPM)"),
        _f32("pcie_rx_mib_s", "MiB/s", "PCIe traffic to the GPU in the interval (GPM)"),
        _i64("mem_used_bytes", "B", "device memory in use"),
        _i64("mem_total_bytes", "B", "device memory in all"),
        _i64("mem_reserved_bytes", "B", "held by the driver; null = counted in mem_used_bytes"),
        _f32("power_w", "W", "board power, as the driver averages it (about 1 s)"),
        _f32("energy_j", "J", "energy used in the interval"),
        _i32("sm_clock_mhz", "MHz", "SM clock (AMD: shader clock)"),
        _i32("mem_clock_mhz", "MHz", "memory clock"),
        _i64("throttle_reasons", "", "vendor's bit mask (NVML: clocks event reasons)"),
        _i32("temperature_c", "°C", "of the GPU (AMD: of its hottest point)"),
        _i32("pcie_gen", "", "PCIe generation the link runs at; an idle GPU lowers it"),
        _i32("pcie_width", "", "PCIe lanes the link runs at"),
        _i32("pcie_gen_max", "", "PCIe generation it could run at"),
        _i32("pcie_width_max", "", "PCIe lanes it could run at"),
        _i64("ecc_uncorrected", "", "uncorrected ECC errors since the driver was loaded"),
        _i32("remapped_rows", "", "memory rows remapped after uncorrectable errors, ever"),
        _flag("remap_pending", "a row waits for a reset to be remapped"),
        _i64("xid", "", "last Xid of the interval; null = none"),
    ),
)

LOG = Table(
    "log",
    ("source", "step"),
    "What the job printed of its steps (docs/joblog.md). Many lines can share one moment: that of "
    "the look which found them, unless they bear a time stamp.",
    (
        *CLOCKS,
        _text("source", "which program's line, e.g. megatron", False),
        _i64("step", "", "step number as printed; null where the line has none"),
        Column("step_time_s", "float64", "s", "step time as printed, or from two time stamps"),
        Column("samples_per_s", "float64", "1/s", "samples per second of the whole job"),
        Column("tokens_per_s", "float64", "1/s", "tokens per second, base in `detail`"),
        _text("detail", "JSON: kind, run, what the step time is a mean of, and what else was said"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        BLOCK,
        FSCLIENT,
        CAPACITY,
        NODE,
        CGROUP,
        PROCESS,
        WAITS,
        STEPS,
        GPU_WAITS,
        EVENTS,
        STACKS,
        GPU,
        LOG,
    )
}
