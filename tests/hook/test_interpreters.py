"""Every Python found here: the hook compiles and leaves a right ring; older ones see nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.hook.scripts import ATTACH, HOOK, Job
from tests.hook.test_watch import WATCH_TWO_EPOCHS


def interpreters() -> dict[str, str]:
    """{version: path} of the interpreters on PATH and below a version manager's folder."""
    found = [shutil.which(f"python{v}") for v in ("2.7", *(f"3.{n}" for n in range(6, 16)))]
    found += [str(p) for p in Path.home().glob(".pyenv/versions/*/bin/python")]
    named = {}
    for path in filter(None, found):
        ask = [path, "-c", "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False)
        if answer.returncode == 0 and re.fullmatch(r"\d\.\d+", answer.stdout):
            named.setdefault(answer.stdout, path)
    return named


FOUND = interpreters()
SUPPORTED = sorted(
    (v for v in FOUND if tuple(map(int, v.split("."))) >= (3, 8)), key=lambda v: int(v[2:])
)
OLDER = sorted(set(FOUND) - set(SUPPORTED))


@pytest.mark.parametrize("version", SUPPORTED)
def test_watch_leaves_a_right_ring(job: Job, version: str) -> None:
    job.python = FOUND[version]
    job.ok(WATCH_TWO_EPOCHS, "-W", "error")
    ring = job.ring()
    assert ring.greeting["python"].startswith(version + ".")
    assert [(b.epoch, b.index) for b in ring.batches] == [(e, i) for e in (0, 1) for i in range(3)]
    assert [e.kind for e in ring.events if e.kind != "gc"] == [
        "loader", "epoch_start", "epoch_end", "epoch_start", "epoch_end", "exit",
    ]  # fmt: skip


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_file_compiles(version: str, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "for name in sys.argv[1:]:\n"
        "    with open(name, encoding='utf-8') as file:\n"
        "        compile(file.read(), name, 'exec', dont_inherit=True)\n"
    )
    files = [str(path) for path in HOOK.rglob("*.py")]
    command = [FOUND[version], "-W", "error", "-c", script, *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", SUPPORTED)
def test_fork_and_patches_work(job: Job, version: str) -> None:
    job.python = FOUND[version]
    (job.folder / "safetensors").mkdir()
    (job.folder / "safetensors/torch.py").write_text("def save_file(t, filename): pass")
    job.ok(
        """
        import multiprocessing, slurm_io_hook
        from safetensors.torch import save_file
        def rank(): list(slurm_io_hook.watch([1, 2]))
        list(slurm_io_hook.watch([1]))
        save_file({}, "x")
        process = multiprocessing.get_context("fork").Process(target=rank)
        process.start(); process.join()
        """
    )
    assert sorted(len(ring.batches) for ring in job.rings()) == [1, 2]
    assert sum(len(ring.of_kind("ckpt_save")) for ring in job.rings()) == 1


@pytest.mark.skipif(not OLDER, reason="no interpreter older than 3.8 here")
@pytest.mark.parametrize("version", OLDER)
def test_older_interpreters_run_as_before(job: Job, version: str) -> None:
    job.python = FOUND[version]
    later = job.folder / "later"
    later.mkdir()
    (later / "sitecustomize.py").write_text("import sys; sys.stdout.write('next ')")
    assert job.ok("print('fine')") == "fine\n"
    job.path = (str(ATTACH), str(later))
    assert job.ok("print('fine')") == "next fine\n"
    assert job.rings() == []
