"""What a serving of a dataset is asked for and says. Pure data."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from slurm_io.errors import UsageError

MODULE = "data"
USER = "stage"
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,200}")
_SECRET_BYTES = 32

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Serving:
    """One serving.

    `allow`: who may connect at all. `bandwidth_bytes_s`: of all connections together (0 = no
    limit); those that are open share it equally. It ends after `lifetime_s`, or
    when nobody was connected for `idle_s`. `greet_s`: a connection must know the secret by then.
    """

    path: str
    content_id: str
    secret: str = field(repr=False)
    allow: tuple[Network, ...]
    host: str
    bind: str = ""
    port: int = 0
    connections_max: int = 16
    lifetime_s: float = 86400.0
    idle_s: float = 600.0
    greet_s: float = 15.0
    bandwidth_bytes_s: int = 0


@dataclass(frozen=True)
class Announcement:
    """What a fetching node must know. `until`: seconds since the epoch. `secret` None: not to be
    printed, because the reader gave it."""

    host: str
    port: int
    user: str
    module: str
    secret: str | None = field(repr=False)
    content_id: str
    until: int
    connections_max: int

    @property
    def where(self) -> str:
        """As :class:`~slurm_io.staging.stage.model.SourceSpec` has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"rsync://{self.user}@{host}:{self.port}/{self.module}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self) | {"where": self.where}


def new_secret() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def checked_secret(text: str) -> str:
    """A secret that was given. Raises UsageError, without showing it."""
    if not _SECRET.fullmatch(text):
        raise UsageError("the secret must be 20 to 200 of A-Z a-z 0-9 _ -")
    return text


def networks_of(hosts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses of host names, addresses and networks (10.1.0.0/16). Raises UsageError."""
    found: list[Network] = []
    for host in hosts:
        try:
            found.append(ipaddress.ip_network(host, strict=False))
        except ValueError:
            found += _addresses(host)
    if not found:
        raise UsageError("say which nodes may fetch: --allow NODE")
    return tuple(dict.fromkeys(found))


def _addresses(host: str) -> list[Network]:
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--allow {host!a:.80}: no such host") from error
    return [ipaddress.ip_network(str(answer[4][0]).partition("%")[0]) for answer in answers]
