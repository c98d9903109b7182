"""The account that a job's data is delivered as."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from slurm_io.errors import StoreError


@dataclass(frozen=True)
class Account:
    """What a process needs to become somebody."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def account_of(user: int | str) -> Account:
    """By uid or name, with all its groups. Raises StoreError when this node does not know it."""
    try:
        found = pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except KeyError as error:
        raise StoreError(f"this node knows no account {user!a}: data stays in the spool") from error
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return Account(found.pw_uid, found.pw_gid, tuple(groups))
