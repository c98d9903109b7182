"""Which steps a training printed, from the file that sbatch writes its output to.

``<work dir>/slurm-<job id>.out``, Slurm's default name: what another ``--output`` is called, Slurm
tells in no version in a form that can be opened safely. The path is the user's and may hang, lead
anywhere or be no file: it is opened in a killable child that has become that user.
"""

from __future__ import annotations

import base64
import os
import pwd
import stat

from slurm_io.host.probe import probe
from slurm_io.joblog.tail import LogTail
from slurm_io.reservation.swap.world import SeenSteps
from slurm_io.slurm.infos import JobInfo

LIMIT_S = 5.0
LIMIT_BYTES = 1 << 20
_KINDS = ("step", "progress", "loss")


def read_steps(job: JobInfo) -> SeenSteps:
    """Steps of the newest run in its output. Raises nothing: `why` says what could not be read."""
    if not job.work_dir or job.uid is None or not job.batch:
        return SeenSteps(why="Slurm does not say where its output is")
    path = f"{job.work_dir}/slurm-{job.job_id}.out"
    answer = probe(read_as, path, job.uid, timeout_s=LIMIT_S)
    if answer.state != "ok":
        return SeenSteps(why=f"its output cannot be read here ({answer.reason[:120]})")
    try:
        at_byte, content = answer.value
        return steps_in(base64.b64decode(content), int(at_byte))
    except (ValueError, TypeError):  # its child was the user's, who may have written into it
        return SeenSteps(why="its output cannot be read here (the answer is none)")


def steps_in(content: bytes, at_byte: int = 0) -> SeenSteps:
    """Steps in the end of a log that begins at `at_byte`."""
    tail = LogTail(at_byte)
    tail.feed(content)
    found = [each for each in tail.take(last=True) if each.step is not None and each.kind in _KINDS]
    if not found:
        return SeenSteps()
    newest = [each for each in found if each.run == found[-1].run]
    return SeenSteps(newest[-1].run, newest[0].step, newest[-1].step)


def read_as(path: str, uid: int) -> tuple[int, str]:
    """Offset and base64 of the file's last bytes. In a child: it stays that user.

    Raises OSError.
    """
    if os.geteuid() == 0:
        _become(uid)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(22, "no regular file")
    start = max(0, facts.st_size - LIMIT_BYTES)
    return start, base64.b64encode(os.pread(descriptor, LIMIT_BYTES, start)).decode()


def _become(uid: int) -> None:
    account = pwd.getpwuid(uid)
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(uid, uid, uid)
