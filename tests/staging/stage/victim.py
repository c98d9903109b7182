"""A stage that is killed: by SIGALRM at any moment, or by SIGKILL at its n-th file operation.

As a script: ``python -m tests.staging.stage.victim FOLDER FIRST EVERY`` kills a stage at its step
FIRST, then one EVERY steps later and so on, resumes each, and says how many steps there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from slurm_io.staging import record as records
from slurm_io.staging.stage.this_boot import journal_key
from slurm_io.staging.verify.journal import known_of
from slurm_io.staging.verify.l1 import stamp_of
from tests.labs.kill_at_step import ran_through
from tests.staging.stage.kit import Site

FEW = {"index.json": 1_000, "a/000.tar": 300_000, "a/b/1": 10, "a/b/2": 20}


def killed_after(site: Site, seconds: float, bandwidth_bytes_s: int) -> bool:
    """Run a stage in a child that the kernel ends after some time; whether it was ended."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            site.stage(bandwidth_bytes_s=bandwidth_bytes_s)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def proven_files(site: Site) -> dict[str, int]:
    """Files that the node knows to be right at this moment: path -> inode."""
    if not site.target.is_dir():
        return {}
    from slurm_io.staging.verify.expected import FromManifest

    files = FromManifest(site.manifest.header, site.manifest.files).files
    with records.opened(os.fspath(site.folder / "state"), "demo", "local") as folder:
        if folder is None:
            return {}
        inode = site.target.stat().st_ino
        key = journal_key(site.manifest.header.content_id, site.order().roots)
        known = known_of(folder, key, inode)
    found = {}
    for index, stamp in known.items():
        path = site.target / files[index].path
        if path.exists() and stamp_of(path.stat()) == stamp:
            found[files[index].path] = stamp[0]
    return found


def check_resume(site: Site) -> None:
    """After a kill: ready is said only when it is true; the next stage ends well and copies nothing
    that was proven."""
    if site.says_ready():
        assert site.truth()
    proven = proven_files(site)
    answer = site.stage()
    assert answer.state == "ready", answer
    assert site.truth()
    assert site.says_ready()
    assert site.room_is_gone()
    for path, inode in proven.items():
        assert (site.target / path).stat().st_ino == inode, f"{path} was copied again"


def _main(folder: Path, first: int, every: int) -> None:
    step = first
    while True:
        place = folder / str(step)
        site = Site.made(place, FEW)
        if ran_through(partial(site.stage, streams=1), step):
            assert site.says_ready()
            break
        check_resume(site)
        shutil.rmtree(place)
        step += every
    print(step)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
