"""Rows of each so many-th second of a node's clock: what a long job's analysis looks at.

Done batch by batch, before text is decoded and batches are put together: those are dear.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_CLOCK = "mono_ns"
_SECOND_NS = 1_000_000_000


def thinner(every: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that keeps the rows whose second is a multiple of `every`.

    A batch without a sound clock stays as it is: whoever checks its columns says so.
    """
    # Made once: turning a Python number into a scalar looks for other libraries each time.
    second = pa.scalar(_SECOND_NS, pa.int64())
    cycle = pa.scalar(every * _SECOND_NS, pa.int64())

    def thinned(batch: pa.RecordBatch) -> pa.RecordBatch:
        if every <= 1 or _CLOCK not in batch.schema.names:
            return batch
        clock = batch.column(_CLOCK)
        if clock.type != pa.int64() or clock.null_count:
            return batch
        into_cycle = pc.subtract(clock, pc.multiply(pc.divide(clock, cycle), cycle))
        return batch.filter(pc.less(into_cycle, second))

    return thinned
