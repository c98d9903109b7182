"""event() and checkpoint(): the user's own checkpoint code, timed."""

from __future__ import annotations

from tests.hook.scripts import Job


def test_checkpoint_is_timed_with_path_and_size(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook, time
        with slurm_io_hook.checkpoint("model.bin"):
            with open("model.bin", "wb") as file: file.write(b"x" * 1234)
            time.sleep(0.02)
        with slurm_io_hook.event("load", path="model.bin", bytes=7): pass
        """
    )
    ring = job.ring()
    save, load = ring.of_kind("ckpt_save") + ring.of_kind("load")
    assert save.text == {"path": str(job.folder / "model.bin")}
    assert save.bytes == 1234
    assert 20_000_000 <= save.end - save.start < 2_000_000_000
    assert save.blocking
    assert save.main
    assert load.bytes == 7
    assert save.end <= load.start


def test_failed_checkpoint_is_marked_and_the_error_passes(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook
        error = OSError(28, "full")
        try:
            with slurm_io_hook.checkpoint("absent"): raise error
        except OSError as caught:
            assert caught is error
        """
    )
    (save,) = job.ring().of_kind("ckpt_save")
    assert save.failed
    assert save.bytes == -1
    assert save.text["error"] == "OSError"


def test_save_on_a_thread_beside_training_is_background(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook, threading
        def save():
            with slurm_io_hook.checkpoint("x"): pass
        list(slurm_io_hook.watch([1]))
        thread = threading.Thread(target=save)
        thread.start(); thread.join()
        """
    )
    ring = job.ring()
    assert not ring.of_kind("ckpt_save")
    (save,) = ring.of_kind("ckpt_background")
    assert not save.blocking
    assert not save.main


def test_unknown_kind_is_not_recorded_and_does_not_raise(job: Job) -> None:
    job.ok("import slurm_io_hook\nwith slurm_io_hook.event('tea'): pass")
    assert job.rings() == []


def test_long_and_odd_paths_keep_their_end(job: Job) -> None:
    job.ok(
        """
        import slurm_io_hook
        with slurm_io_hook.checkpoint("/deep/" + "folder/" * 200 + "last.pt"): pass
        with slurm_io_hook.checkpoint(b"/data/caf\\xe9.pt"): pass
        with slurm_io_hook.checkpoint("/data/caf\\u00e9.pt"): pass
        """
    )
    deep, odd, accent = job.ring().of_kind("ckpt_save")
    assert deep.text["cut"] is True
    assert deep.text["path"].endswith("/folder/last.pt")
    assert odd.text["path"].encode("utf-8", "surrogateescape") == b"/data/caf\xe9.pt"
    assert accent.text["path"] == "/data/caf\u00e9.pt"


def test_long_collections_are_recorded_once_there_is_a_ring(job: Job) -> None:
    job.ok(
        """
        import gc, slurm_io_hook
        rubbish = [[i] for i in range(300_000)]
        gc.collect()
        list(slurm_io_hook.watch([1]))
        gc.collect()
        """
    )
    pauses = job.ring().of_kind("gc")
    assert pauses
    assert all(p.end - p.start >= 1_000_000 and p.blocking for p in pauses)


def test_execution_of_another_program_in_the_same_process_starts_a_new_ring(job: Job) -> None:
    job.ok(
        """
        import os, sys, slurm_io_hook
        list(slurm_io_hook.watch([1] * 5))
        if len(sys.argv) == 1:
            os.execv(sys.executable, [sys.executable, __file__, "again"])
        """
    )
    assert len(job.ring().batches) == 5
    assert job.ring().state == 2
