"""watch(): what a consumer waited for reaches the ring, and the iterable stays what it was."""

from __future__ import annotations

import stat

import pytest

from tests.hook.scripts import Job

WATCH_TWO_EPOCHS = """
    import slurm_io_hook, time
    loader = slurm_io_hook.watch([1, 2, 3], name="numbers")
    for epoch in range(2):
        assert list(loader) == [1, 2, 3]
"""


def test_every_item_of_every_epoch_is_one_batch(job: Job) -> None:
    job.ok(WATCH_TWO_EPOCHS)
    ring = job.ring()
    assert [(b.epoch, b.index) for b in ring.batches] == [(e, i) for e in (0, 1) for i in range(3)]
    assert [b.flags for b in ring.batches] == [8 | 1, 8, 8] * 2
    assert {b.loader for b in ring.batches} == {1}
    assert all(b.start <= b.end for b in ring.batches)
    assert all(b.gpu_idle == -1 and b.steps == b.step_end == 0 for b in ring.batches)


def test_end_of_an_epoch_is_an_event_and_no_batch(job: Job) -> None:
    job.ok(WATCH_TWO_EPOCHS)
    ends = job.ring().of_kind("epoch_end")
    assert [end.text for end in ends] == [
        {"loader": 1, "epoch": epoch, "batches": 3} for epoch in (0, 1)
    ]
    assert all(end.main and end.blocking and not end.failed for end in ends)


def test_loader_is_described_once_and_before_its_batches(job: Job) -> None:
    job.ok(WATCH_TWO_EPOCHS)
    ring = job.ring()
    assert [(text["id"], text["name"], text["dataset"]) for text in ring.loaders()] == [
        (1, "numbers", "builtins.list")
    ]
    assert ring.of_kind("loader")[0].number < ring.batches[0].number


def test_ring_says_who_wrote_it_and_that_it_ended(job: Job) -> None:
    job.ok(
        WATCH_TWO_EPOCHS,
        env={"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"},
    )
    ring = job.ring()
    hello = ring.greeting
    # In a container's pid namespace its number follows behind a dot.
    assert ring.name.partition(".")[0] == f"ring-{hello['pid']}-{hello['starttime']}"
    assert (hello["rank"], hello["local_rank"], hello["world_size"]) == (5, 1, 8)
    assert hello["slurm_procid"] == 5
    assert hello["torch"] is None
    assert hello["argv0"].endswith("train.py")
    assert set(hello) == {
        "pid", "starttime", "rank", "local_rank", "world_size", "slurm_procid", "python",
        "torch", "argv0", "hook",
    }  # fmt: skip
    assert ring.mode == stat.S_IRUSR | stat.S_IWUSR
    assert ring.size == 4096 + 64 * 16384
    assert ring.state == 2
    assert ring.events[-1].kind == "exit"


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({}, None),
        ({"RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"SLURM_PROCID": "2"}, 2),
        ({"RANK": "not a number"}, None),
    ],
)
def test_rank_is_the_launchers_else_slurms_else_unknown(
    job: Job, env: dict[str, str], rank: int | None
) -> None:
    job.ok(WATCH_TWO_EPOCHS, env=env)
    assert job.ring().greeting["rank"] == rank


def test_clock_offset_leads_from_monotonic_to_utc(job: Job) -> None:
    stdout = job.ok(
        """
        import slurm_io_hook, time
        print(time.time_ns() - time.monotonic_ns())
        list(slurm_io_hook.watch([1]))
        """
    )
    assert abs(job.ring().clock_offset - int(stdout)) < 1_000_000_000


def test_watched_thing_behaves_as_itself(job: Job) -> None:
    job.ok(
        """
        import copy, pickle, slurm_io_hook
        watch = slurm_io_hook.watch

        class Loader:
            def __init__(self): self.epoch = 0
            def set_epoch(self, n): self.epoch = n
            def __iter__(self): return iter("ab")

        plain = Loader()
        loader = watch(plain)
        loader.set_epoch(3)
        assert plain.epoch == loader.epoch == 3
        loader.epoch = 4
        assert plain.epoch == 4
        assert not hasattr(loader, "__len__") and bool(loader)
        assert not hasattr(loader, "nothing")
        assert list(loader) == list(loader) == ["a", "b"]
        assert type(copy.copy(loader)) is Loader
        assert type(copy.deepcopy(loader)) is Loader
        sized = watch([1, 2])
        assert len(sized) == 2 and not watch([])
        assert pickle.loads(pickle.dumps(sized)) == [1, 2]
        assert watch(sized) is sized

        def generate():
            got = yield 1
            assert got == "sent"
            yield 2
        generator = watch(generate())
        assert iter(generator) is generator
        assert next(generator) == 1 and generator.send("sent") == 2
        generator.close()
        assert next(generator, "over") == "over"
        """
    )
    assert len(job.ring().of_kind("epoch_end")) == 3


def test_users_exception_passes_unchanged(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook, traceback
        error = ValueError("the user's")
        def broken():
            yield 1
            raise error
        try:
            for _ in slurm_io_hook.watch(broken()): pass
        except ValueError as caught:
            assert caught is error
            assert caught.__context__ is None and caught.__cause__ is None
            last = traceback.extract_tb(caught.__traceback__)[-1]
            assert last.name == "broken"
        else:
            raise SystemExit("not raised")
        """
    )
    ring = job.ring()
    assert len(ring.batches) == 1
    (failed,) = ring.of_kind("error")
    assert failed.failed
    assert failed.text == {"loader": 1, "epoch": 0, "error": "ValueError"}


def test_outermost_call_counts_and_others_do_not(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook
        inner = slurm_io_hook.watch([1, 2, 3], name="inner")
        def pairs():
            for item in inner:
                with slurm_io_hook.checkpoint("inside"):
                    yield item
        outer = slurm_io_hook.watch(pairs(), name="outer")
        for _ in outer: pass
        """
    )
    ring = job.ring()
    assert [text["name"] for text in ring.loaders()] == ["outer"]
    assert len(ring.batches) == 3
    assert not ring.of_kind("ckpt_save")


def test_batches_of_another_thread_are_marked(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook, threading
        loader = slurm_io_hook.watch([1, 2])
        list(loader)
        thread = threading.Thread(target=list, args=(loader,))
        thread.start()
        thread.join()
        """
    )
    ring = job.ring()
    assert [b.flags & 16 for b in ring.batches] == [0, 0, 16, 16]
    assert [end.main for end in ring.of_kind("epoch_end")] == [True, False]


def test_phase_shows_the_wait_while_it_lasts(job: Job) -> None:
    stdout = job.ok(
        """
        import os, struct, slurm_io_hook
        def phase():
            name, = os.listdir(os.environ["SLURM_IO_RING_DIR"])
            with open(os.path.join(os.environ["SLURM_IO_RING_DIR"], name), "rb") as ring:
                ring.seek(32)
                return struct.unpack("<IIQ", ring.read(16))
        def items():
            for _ in range(3):
                yield phase()
        seen = []
        for during in slurm_io_hook.watch(items()):
            seen.append((during, phase()))
        for (kind, loader, since), (kind_after, _, since_after) in seen:
            assert (kind, loader) == (1, 1), (kind, loader)
            assert kind_after == 0
            assert since <= since_after
        with slurm_io_hook.checkpoint():
            assert phase()[0] == 2
        with slurm_io_hook.event("load"):
            assert phase()[0] == 3
        print(len(seen), phase()[0])
        """
    )
    assert stdout.split() == ["3", "0"]


def test_overrun_keeps_the_youngest_records(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook
        for _ in slurm_io_hook.watch(range(20000)): pass
        """
    )
    ring = job.ring()
    assert ring.written > 20000
    assert ring.batches[-1].index == 19999
    indexes = [b.index for b in ring.batches]
    assert indexes == list(range(indexes[0], 20000))
    assert len(ring.batches) + 16 > ring.n_records


@pytest.mark.parametrize("env", [{"SLURM_IO_HOOK": "0"}, {"SLURM_IO_RING_DIR": ""}])
def test_switched_off_it_is_not_there(job: Job, env: dict[str, str]) -> None:
    stdout = job.ok(
        """
        import slurm_io_hook, sys
        data = [1]
        assert slurm_io_hook.watch(data) is data
        with slurm_io_hook.checkpoint("x"): pass
        print(slurm_io_hook.enabled(), [f for f in sys.meta_path if "PatchFinder" in repr(f)])
        """,
        env=env,
    )
    assert stdout.split() == ["False", "[]"]
    assert job.rings() == []


def test_import_alone_makes_no_ring(job: Job) -> None:
    assert job.ok("import gc, slurm_io_hook; gc.collect(); print(slurm_io_hook.enabled())") == (
        "True\n"
    )
    assert job.rings() == []
