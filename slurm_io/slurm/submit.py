"""sbatch's arguments for a job of somebody, and its answer."""

from __future__ import annotations

import math
import pwd
import re

from slurm_io.errors import SlurmError, SlurmRefused
from slurm_io.slurm import given
from slurm_io.slurm.base import NewJob
from slurm_io.slurm.hostlist import compress


def submit_words(wanted: NewJob) -> tuple[str, ...]:
    """The arguments; the script itself goes to sbatch's stdin. Raises SlurmRefused."""
    try:
        account = pwd.getpwnam(wanted.user)
    except KeyError:
        raise SlurmRefused(f"there is no account {wanted.user[:64]!a} to submit for") from None
    given.script(wanted.script)
    home = given.absolute_path(account.pw_dir, "the account's home")
    if "," in home:
        raise SlurmRefused(f"the home {home[:60]!a} cannot be given to sbatch")
    words = [
        "--parsable",
        f"--uid={account.pw_uid}",
        f"--gid={account.pw_gid}",
        f"--chdir={given.absolute_path(wanted.work_dir, 'work_dir')}",
        f"--export=PATH,LC_ALL,USER={account.pw_name},HOME={home}",
        f"--job-name={given.plain_name(wanted.name, 'name of a job')}",
    ]
    if wanted.nodes:
        words.append(f"--nodelist={compress(given.node_names(wanted.nodes))}")
        words.append(f"--nodes={len(wanted.nodes)}")
    if wanted.reservation is not None:
        words.append(f"--reservation={given.reservation_name(wanted.reservation)}")
    names = {"partition": wanted.partition, "qos": wanted.qos, "account": wanted.account}
    words += [
        f"--{key}={given.plain_name(name, key)}" for key, name in names.items() if name is not None
    ]
    if wanted.comment is not None:
        words.append(f"--comment={given.line(wanted.comment, 'comment')}")
    if wanted.time_limit_s is not None:
        words.append(f"--time={max(1, math.ceil(wanted.time_limit_s / 60))}")
    if wanted.requeue is not None:
        words.append("--requeue" if wanted.requeue else "--no-requeue")
    if wanted.output is not None:
        words.append(f"--output={given.absolute_path(wanted.output, 'output')}")
    return tuple(words)


def job_id_in(told: str) -> str:
    """``12`` or ``12;cluster``. Raises SlurmError."""
    found = re.fullmatch(r"([1-9][0-9]{0,9})(;\S+)?", told.strip())
    if found is None:
        raise SlurmError(f"sbatch answered {told[:100]!a}, which is no job id")
    return found[1]
