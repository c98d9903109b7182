"""F01: the job waits for data.

What it flags
-------------
The GPUs wait for the next batch for a noticeable share of training. One finding for each cause:
storage (object store included), batch preparation on the CPU, the loader's own machinery, or a
cause that could not be seen.

Why it matters
--------------
A starved GPU costs as much as a busy one. The cause decides the remedy: more workers mend a lack
of CPU and make slow storage worse.

Evidence
--------
The wait is timed in the process (hook); where no hook was, it is seen by stacks, with a wider range
whose lower end must reach the threshold. Its cause comes from samples of what the loader's workers,
or without workers the rank itself, were doing in just these seconds. Storage is proven only with a
second, independent signal: effective read latency (time in storage waits over read calls and major
faults), latency of the device or the file system's client against its own quiet seconds, requests
of which none completes, a client cut off from its servers, a first pass read from storage while
later ones found the same data in memory and did not wait, the kernel's delay accounting, I/O
pressure. In a synchronous job a step loses what its slowest rank waits, times all GPUs; that rank
is named.

What to do
----------
Storage: copy the dataset to node-local NVMe before training, pack many small files into shards.
CPU: more workers and cores for them, a cheaper transform. Pipeline: keep workers alive between
passes, smaller items through the queue. Unknown: look at a stack of a worker while the job waits.

Known false alarms
------------------
A wait while the GPU still works off queued kernels is no loss; without a GPU-side measurement the
range says so (low). The hand-over of a batch (a few milliseconds) is never a stall, and one that
is late while tasks queue for CPUs is not laid on the loader's machinery. First batches of a pass
wait for workers to start; they are named storage only on their own samples. A loader that sleeps
(rate limits, polling) has an unknown cause, never storage. Object-store clients that decode while
they read look like both.

Thresholds
----------
``thresholds.data_share`` (3 %) for storage and for an unknown cause, ``thresholds.storage_share``
(5 %) for many small losses together; 5 % for CPU and for pipeline, which no key changes (below, a
loader without workers does what it must). All of training GPU time. At least 20 steps and 5 s of
training; below 200 steps and 10 minutes the finding says so.
"""

from __future__ import annotations

import os.path
import shlex
from pathlib import PurePosixPath

from slurm_io.analysis.allotted import advise_workers
from slurm_io.analysis.bounds import Range
from slurm_io.analysis.by_stacks import ByStacks
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    Severity,
    each_node,
    shortness,
)
from slurm_io.analysis.where import find_holders


@RULES.register("f01_loader_bound")
class LoaderBound:
    """The GPUs wait for data."""

    code = "F01"
    title = "GPUs starved by the data loader"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """One finding for each cause above its threshold."""
        shares = picture.thresholds.shares
        causes = {
            "data_storage": (picture.data_storage.value, shares.data_storage, _storage),
            "cpu": (picture.losses.share("cpu"), shares.data_cpu, _cpu),
            "pipeline": (
                picture.losses.share("pipeline", "epoch"),
                shares.data_pipeline,
                _pipeline,
            ),
            "vague_wait": (picture.losses.share("unknown", "sleep"), shares.data_unknown, _unknown),
        }
        together = sum(share for share, _, _ in causes.values()) >= shares.together
        largest = max(share for share, _, _ in causes.values())
        enough = picture.thresholds.enough.cause_samples
        found = [
            finding(picture, share, limit)
            for name, (share, limit, finding) in causes.items()
            if (share >= limit or (together and share == largest))
            and picture.is_sure(name, limit)
            and not (finding is _cpu and picture.samples_of("cpu") < enough)
            and not (finding is _pipeline and picture.cpus_are_short is not None)
        ]
        if not found:
            return Answer("quiet", f"the largest cause takes {largest:.1%} of training")
        return Answer("fired", findings=tuple(found))


def _storage(picture: Picture, share: float, limit: float) -> Finding:
    data, where = picture.data_storage, picture.where
    mounts = tuple(mount.mount for mount in where.mounts if mount.share >= 0.10)
    files = tuple(path for mount in where.mounts for path in mount.files)[:5]
    evidence = [
        Evidence(
            f"waiting for storage took {data.value:.1%} of training GPU time "
            f"({data.low:.1%} to {data.high:.1%})",
            "data_storage_share", share, limit,
        ),
        *(_heard(picture)),
        *(_nature(picture)),
    ]  # fmt: skip
    target = _dataset_folder(files, mounts)
    return Finding(
        rule="F01",
        severity=_severity(share),
        confidence=picture.storage_confidence,
        title=f"training waits for reads from {', '.join(mounts) or 'storage'}",
        lost_gpu_s=picture.losses.by_cause["storage"] + picture.losses.by_cause["net"],
        lost_range=data,
        where=_place(picture, ("storage", "net"), mounts, files),
        evidence=(*evidence, *shortness(picture)),
        remedy=_storage_remedy(picture, target),
        commands=_staging(picture, target),
    )


def _heard(picture: Picture) -> list[Evidence]:
    """Witnesses that said something, those that agree first."""
    heard = sorted(
        (one for one in picture.witnesses if one.agrees is not None), key=lambda one: not one.agrees
    )
    return [
        Evidence(
            f"{witness.name}: {witness.text}" + ("" if witness.agrees else " (does not agree)"),
            witness.metric, witness.value, witness.threshold,
        )
        for witness in heard
    ]  # fmt: skip


def _nature(picture: Picture) -> list[Evidence]:
    """What kind of reads they were, where that changes the remedy."""
    where, found = picture.where, []
    if where.mounts and where.mounts[0].wchan:
        first = where.mounts[0]
        text = f"{first.share:.0%} of the storage samples on {first.mount}"
        kind = f" ({first.fstype})" if first.fstype else ""
        found.append(Evidence(f"{text}{kind}, mostly in {first.wchan}", "mount_share", first.share))
    if where.fault_share >= 0.5:
        text = f"{where.fault_share:.0%} of the storage samples were page faults of mapped files"
        found.append(Evidence(text, "fault_share", where.fault_share))
    if where.net_share >= 0.1:
        text = f"{where.net_share:.0%} of them were reads from the network (object store)"
        found.append(Evidence(text, "net_share", where.net_share))
    return found


def _dataset_folder(files: tuple[str, ...], mounts: tuple[str, ...]) -> str | None:
    """The folder the files have in common, else the mount."""
    absolute = [str(PurePosixPath(path).parent) for path in files if path.startswith("/")]
    common = os.path.commonpath(absolute) if absolute else ""
    return common if common not in ("", "/") else next(iter(mounts), None)


def _storage_remedy(picture: Picture, target: str | None) -> str:
    where = picture.where
    if where.net_share >= 0.5:
        return (
            "read the objects once into node-local NVMe before training, or let the reader keep a "
            "local cache there"
        )
    what = f"{target}" if target else "the dataset"
    remedy = f"copy {what} to node-local NVMe before training and read it from there"
    if where.fault_share >= 0.5:
        return remedy + "; mapped files read one page at a time, so latency counts most"
    return remedy + "; where it does not fit, pack small files into shards of 100 MB and more"


def _staging(picture: Picture, target: str | None) -> tuple[str, ...]:
    """Commands that copy `target` to each node; outside Slurm to the only one."""
    if target is None or not target.startswith("/"):
        return ()
    source = shlex.quote(target.rstrip("/") + "/")
    start = each_node(picture)
    return (
        f'{start}mkdir -p "$TMPDIR/dataset"',
        f'{start}rsync -a {source} "$TMPDIR/dataset/"',
    )


def _cpu(picture: Picture, share: float, limit: float) -> Finding:
    workers = any(process.has_workers for process in picture.timeline.processes)
    if picture.is_hookless:
        workers = bool((picture.causes.samples["role"] == "worker").any())
    who = "the worker processes" if workers else "the training process itself"
    text = f"preparing batches took {share:.1%} of training GPU time"
    advice = advise_workers(picture)
    remedy = (
        "more workers and cores for them, or a cheaper transform (decode once, smaller images)"
        if workers
        else "let worker processes prepare the batches, with cores for them"
    )
    if advice.text:
        remedy = f"a cheaper transform (decode once, smaller images); {advice.text}"
    return Finding(
        rule="F01",
        severity=_severity(share),
        confidence="likely",
        title="training waits for batches to be prepared on the CPU",
        lost_gpu_s=picture.losses.by_cause["cpu"],
        lost_range=_range(picture, "cpu"),
        where=_place(picture, ("cpu",)),
        evidence=(
            Evidence(text, "data_cpu_share", share, limit),
            Evidence(f"while data was awaited, {who} computed", "samples"),
            *shortness(picture),
        ),
        remedy=remedy,
        commands=advice.commands,
    )


def _pipeline(picture: Picture, share: float, limit: float) -> Finding:
    epochs = picture.losses.share("epoch")
    text = f"the loader's own machinery took {share:.1%} of training GPU time"
    return Finding(
        rule="F01",
        severity=_severity(share),
        confidence="likely",
        title="training waits for the loader's machinery, not for its workers",
        lost_gpu_s=picture.losses.by_cause["pipeline"] + picture.losses.by_cause["epoch"],
        lost_range=_range(picture, "pipeline"),
        where=_place(picture, ("pipeline", "epoch")),
        evidence=(
            Evidence(text, "data_pipeline_share", share, limit),
            Evidence(f"{epochs:.1%} went into starting and ending passes", "epoch_share", epochs),
            *shortness(picture),
        ),
        remedy="keep workers between passes, and send less through the queue (collate in the "
        "workers, fewer and larger tensors)",
        commands=("DataLoader(..., persistent_workers=True, pin_memory=True)",),
    )


def _unknown(picture: Picture, share: float, limit: float) -> Finding:
    asleep = picture.losses.by_cause["sleep"]
    unseen = picture.losses.by_cause["unknown"]
    why = (
        "the loader's processes were asleep of their own accord (a timer), not in a read"
        if asleep >= unseen
        else "no sample shows what the loader's processes were doing"
    )
    return Finding(
        rule="F01",
        severity="warn",
        confidence="not-proven",
        title="training waits for data for a reason that was not seen",
        lost_gpu_s=asleep + unseen,
        lost_range=_range(picture, "vague_wait"),
        where=_place(picture, ("unknown", "sleep")),
        evidence=(
            Evidence(
                f"{share:.1%} of training GPU time has no known cause: {why}",
                "data_unknown_share", share, limit,
            ),
            *shortness(picture),
        ),
        remedy="look at what a loader process does while the job waits",
        commands=("py-spy dump --pid PID_OF_A_WORKER",),
    )  # fmt: skip


def _range(picture: Picture, name: str) -> Range | None:
    """Of the causes beside storage only stacks make a range."""
    seen = picture.by_stacks
    return seen.found[name] if seen is not None and picture.is_hookless else None


def _severity(share: float) -> Severity:
    return "bad" if share >= 0.05 else "warn"


def _place(
    picture: Picture,
    causes: tuple[str, ...],
    mounts: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
) -> Place:
    """The ranks that held at least a tenth of these causes' loss."""
    seen = picture.by_stacks
    if seen is not None and picture.is_hookless:
        return _place_by_stacks(seen, mounts, files)
    holders = find_holders(picture.losses, picture.timeline, causes)
    leaders = [holder for holder in holders if holder.share >= 0.10]
    return Place(
        nodes=tuple(sorted({holder.node for holder in leaders})),
        ranks=tuple(sorted({holder.rank for holder in leaders if holder.rank is not None})),
        mounts=mounts,
        files=files,
    )


def _place_by_stacks(seen: ByStacks, mounts: tuple[str, ...], files: tuple[str, ...]) -> Place:
    """The rank that holds the others; of a single one itself."""
    only = seen.looks.ranks[0] if len(seen.looks.ranks) == 1 else None
    held = seen.holder or only
    ranks = (held.rank,) if held is not None and held.rank is not None else ()
    return Place((held.node,) if held is not None else (), ranks, mounts, files)
