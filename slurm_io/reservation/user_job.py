"""The account of jobs that root submits for somebody: filler, and the training of a drill."""

from __future__ import annotations

import pwd

from slurm_io.errors import ConfigError


def account_of(user: str, label: str) -> pwd.struct_passwd:
    """The account, which is never root's. `label` names the setting in errors. Raises
    ConfigError."""
    if not user:
        raise ConfigError(f"{label} is not set: name the account that such jobs run as, not root")
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"{label}: there is no account {user[:64]!a}; name one") from None
    if account.pw_uid == 0:
        raise ConfigError(f"{label}: such jobs never run as root; name an ordinary account")
    return account
