"""One filler job: the site's script, as the site's account, for one spare."""

from __future__ import annotations

import os
import pwd
import stat

from slurm_io.errors import ConfigError
from slurm_io.reservation.model import Pool
from slurm_io.reservation.user_job import account_of
from slurm_io.reservation.watch.filler import MARK
from slurm_io.slurm.base import NewJob

_LONGEST_SCRIPT_BYTES = 1 << 20


def filler_job(pool: Pool, node: str) -> NewJob:
    """What is submitted. All of it wins over the script's own lines, so that it can be no job on
    another node, nor one that does not give way. Raises ConfigError for an account or a script
    that cannot be used."""
    settings = pool.settings
    account = account_of(settings.filler_user, f"[reservation.{pool.name}] filler_user")
    return NewJob(
        name=f"filler-{pool.name}",
        script=_script(settings.filler_script, pool.name, account),
        user=account.pw_name,
        work_dir=account.pw_dir,
        nodes=(node,),
        partition=next(iter(settings.filler_partitions), None),
        reservation=pool.name,
        qos=next(iter(settings.filler_qos), None),
        comment=f"{MARK} {pool.name}",
        requeue=True,
    )


def _script(path: str, reservation: str, account: pwd.struct_passwd) -> str:
    label = f"[reservation.{reservation}] filler_script {path}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            content = file.read(_LONGEST_SCRIPT_BYTES + 1) if _may_read(facts, account) else None
    except OSError as error:
        raise ConfigError(f"{label}: cannot be read: {error.strerror}") from error
    if content is None:
        raise ConfigError(
            f"{label}: {account.pw_name} must be able to read it, and it must be a file: Slurm "
            "shows a job's script to its owner"
        )
    if len(content) > _LONGEST_SCRIPT_BYTES:
        raise ConfigError(f"{label}: larger than 1 MiB: is it a batch script?")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{label}: it is no text") from None


def _may_read(facts: os.stat_result, account: pwd.struct_passwd) -> bool:
    """Else a link that the account puts there would show it what only root may read."""
    if not stat.S_ISREG(facts.st_mode):
        return False
    if facts.st_uid == account.pw_uid or facts.st_mode & stat.S_IROTH:
        return True
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return facts.st_gid in groups and bool(facts.st_mode & stat.S_IRGRP)
