"""Whatever is wrong with the ring folder, the user's program does not notice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.scripts import Job

SCRIPT = """
    import slurm_io_hook
    loader = slurm_io_hook.watch([1, 2, 3])
    assert list(loader) == [1, 2, 3]
    with slurm_io_hook.checkpoint("x"): pass
    assert list(loader) == [1, 2, 3]
    print("enabled" if slurm_io_hook.enabled() else "off")
"""


@pytest.fixture
def tiny_tmpfs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_missing_folder(job: Job) -> None:
    missing = job.folder / "missing"
    assert job.ok(SCRIPT, env={"SLURM_IO_RING_DIR": str(missing)}) == "off\n"
    assert not missing.exists()


def test_folder_that_is_a_file(job: Job) -> None:
    (job.folder / "file").touch()
    assert job.ok(SCRIPT, env={"SLURM_IO_RING_DIR": str(job.folder / "file")}) == "off\n"


def test_folder_that_takes_no_files(job: Job) -> None:
    assert job.ok(SCRIPT, env={"SLURM_IO_RING_DIR": "/proc/self"}) == "off\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_full_folder_keeps_no_half_made_ring(job: Job, tiny_tmpfs: Path) -> None:
    assert job.ok(SCRIPT, env={"SLURM_IO_RING_DIR": str(tiny_tmpfs)}) == "off\n"
    assert list(tiny_tmpfs.iterdir()) == []


@pytest.mark.parametrize("prologue", ["", "import signal; signal.signal(25, signal.SIG_DFL)"])
def test_file_size_limit_does_not_kill_the_program(job: Job, prologue: str) -> None:
    done = job.run(prologue + "\n" + SCRIPT.replace("\n    ", "\n"), before="ulimit -f 100")
    assert (done.returncode, done.stdout) == (0, "off\n")
    assert job.rings() == []


def test_link_in_the_rings_place_is_not_followed(job: Job) -> None:
    victim = job.folder / "victim"
    victim.write_text("precious")
    job.ok(
        f"""
        import os, slurm_io_hook
        start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
        space = os.readlink("/proc/self/ns/pid")[5:-1]
        space = "" if space == "4026531836" else "." + space
        name = os.path.join({str(job.ring_folder)!r}, "ring-%d-%s%s" % (os.getpid(), start, space))
        os.symlink({str(victim)!r}, name)
        list(slurm_io_hook.watch([1]))
        """
    )
    assert victim.read_text() == "precious"
    assert len(job.ring().batches) == 1
    assert not next(job.ring_folder.iterdir()).is_symlink()


def test_debug_says_why(job: Job) -> None:
    done = job.run(
        SCRIPT,
        env={"SLURM_IO_RING_DIR": str(job.folder / "missing"), "SLURM_IO_HOOK_DEBUG": "1"},
    )
    assert done.returncode == 0
    assert "off: FileNotFoundError" in done.stderr
