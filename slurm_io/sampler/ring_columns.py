"""A run of batches as packed rows of `steps`: what :mod:`.ring_rows` does batch by batch."""

from __future__ import annotations

from array import array

from slurm_io.sampler.ring_batches import Batches, added
from slurm_io.store.packed import PackedColumn, PackedRows, repeated


def packed_steps(run: Batches, pid: int, rank: int | None, offset_ns: int) -> PackedRows:
    """`offset_ns`: UTC − CLOCK_MONOTONIC."""
    n, flags = run.n, run.flags
    return PackedRows(
        n,
        (
            _numbers(added(run.start_ns, offset_ns)),
            _numbers(run.start_ns),
            repeated("int32", pid, n),
            repeated("int32", rank, n),
            repeated("int32", run.loader, n),
            repeated("int32", run.epoch, n),
            _numbers(run.batch),
            _numbers(array("q", run.step)),
            _known(run.last_step_ns, least=1),
            _numbers(run.wait_ns),
            _known(run.gpu_idle_ns, least=0),
            repeated("int64", None, n),
            repeated("float32", None, n),
            repeated("bool", bool(flags & 1), n),
            repeated("bool", bool(flags & 2), n),
            repeated("bool", bool(flags & 4), n),
        ),
    )


def _numbers(values: array[int]) -> PackedColumn:
    return PackedColumn(values.tobytes())


def _known(values: array[int], least: int) -> PackedColumn:
    """Null where below `least`."""
    data = values.tobytes()
    if max(values) < least:
        return PackedColumn(data, bytes(len(values)))
    if min(values) >= least:
        return PackedColumn(data)
    return PackedColumn(data, bytes([value >= least for value in values]))
