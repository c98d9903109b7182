"""The writer and the sampler's reader were written apart, from one page: they must agree."""

from __future__ import annotations

from slurm_io.hook import record
from slurm_io.sampler import ring_format
from tests.hook.scripts import Job


def test_numbers_are_the_same_on_both_sides() -> None:
    assert ring_format.MAGIC == record.MAGIC
    assert ring_format.HEADER_BYTES == record.HEADER_BYTES
    assert ring_format.RECORD_BYTES == record.RECORD_BYTES
    assert ring_format.GREETING_OFFSET == record.GREETING_OFFSET
    assert ring_format.PHASE_OFFSET == record.PHASE_OFFSET
    assert ring_format.HEAD_OFFSET == record.COUNT_OFFSET
    assert {
        getattr(record, name.upper()): name for name in ring_format.EVENT_NAMES.values()
    } == ring_format.EVENT_NAMES


def test_sampler_reads_what_a_process_wrote(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook
        list(slurm_io_hook.watch([1, 2, 3]))
        with slurm_io_hook.checkpoint("/data/model.pt", bytes=9): pass
        """,
        env={"RANK": "1"},
    )
    (path,) = job.ring_folder.iterdir()
    raw = path.read_bytes()
    header = ring_format.parse_header(raw)
    assert header is not None
    assert header.size_bytes() == path.stat().st_size
    assert ring_format.parse_greeting(raw[512 : 512 + header.greeting_bytes]).rank == 1
    (written,) = record.COUNT.unpack_from(raw, record.COUNT_OFFSET)
    ours = job.ring()
    theirs = [ring_format.parse_record(raw, 4096 + 64 * i) for i in range(written)]
    batches = [r for r in theirs if isinstance(r, ring_format.Batch)]
    assert [(b.loader, b.epoch, b.start_ns, b.end_ns) for b in batches] == [
        (b.loader, b.epoch, b.start, b.end) for b in ours.batches
    ]
    events = [r for r in theirs if isinstance(r, ring_format.Event)]
    assert [(e.kind, e.start_ns, e.end_ns, e.blocking, e.failed) for e in events] == [
        (e.kind, e.start, e.end, e.blocking, e.failed) for e in ours.events
    ]
