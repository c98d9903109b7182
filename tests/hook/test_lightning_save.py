"""Lightning's checkpoints, by a stand-in with its seam: torch.save fills a buffer, another call
writes it. Lightning itself runs in tests/frameworks."""

from __future__ import annotations

import textwrap

import pytest

from tests.hook.scripts import Job

TORCH_IO = """
    import time
    def _atomic_save(checkpoint, path):
        time.sleep(0.02)
        if checkpoint is None: raise OSError(28, "No space left on device")
        with open(path, "wb") as file: file.write(checkpoint)
    class CheckpointIO: pass
    class TorchCheckpointIO(CheckpointIO):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            _atomic_save(checkpoint, path)
"""


@pytest.fixture(params=["lightning.fabric", "lightning_fabric"])
def package(job: Job, request: pytest.FixtureRequest) -> str:
    file = job.folder / request.param.replace(".", "/") / "plugins/io/torch_io.py"
    file.parent.mkdir(parents=True)
    file.write_text(textwrap.dedent(TORCH_IO))
    return str(request.param)


def test_checkpoint_is_the_write_and_not_only_the_buffer(job: Job, package: str) -> None:
    job.ok(
        f"""
        from {package}.plugins.io.torch_io import TorchCheckpointIO
        TorchCheckpointIO().save_checkpoint(b"x" * 1000, "a.ckpt")
        TorchCheckpointIO().save_checkpoint(b"x" * 2000, path="b.ckpt")
        try: TorchCheckpointIO().save_checkpoint(None, "full.ckpt")
        except OSError: pass
        """
    )
    saves = job.ring().of_kind("ckpt_save")
    assert [save.bytes for save in saves] == [1000, 2000, -1]
    assert [save.text["path"].rpartition("/")[2] for save in saves] == [
        "a.ckpt", "b.ckpt", "full.ckpt",
    ]  # fmt: skip
    assert [save.failed for save in saves] == [False, False, True]
    assert all(save.blocking and save.end - save.start >= 20_000_000 for save in saves)


def test_checkpoint_on_a_thread_beside_training_is_background_work(job: Job, package: str) -> None:
    """AsyncCheckpointIO calls the same method from its executor."""
    job.ok(
        f"""
        import slurm_io_hook, threading
        from {package}.plugins.io.torch_io import TorchCheckpointIO
        list(slurm_io_hook.watch([1]))
        save = TorchCheckpointIO().save_checkpoint
        thread = threading.Thread(target=save, args=(b"x", "a.ckpt"))
        thread.start(); thread.join()
        """
    )
    ring = job.ring()
    assert len(ring.of_kind("ckpt_background")) == 1 and not ring.of_kind("ckpt_save")
