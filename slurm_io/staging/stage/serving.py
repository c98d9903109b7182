"""``dataset serve``: from a dataset's name to a daemon that serves it until it is told to end."""

from __future__ import annotations

import functools
import getpass
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from slurm_io.config import Config
from slurm_io.errors import HostError, UsageError
from slurm_io.slurm.node_name import node_name
from slurm_io.spec import JobSpec
from slurm_io.staging import record as records
from slurm_io.staging.datasets import Names, Place, place_of, state_folder
from slurm_io.staging.stage.peer_daemon import NotReady, PeerDaemon
from slurm_io.staging.stage.peer_model import (
    Announcement,
    Serving,
    checked_secret,
    networks_of,
    new_secret,
)
from slurm_io.staging.stage.serving_proof import not_servable

_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SECRET_LIMIT_BYTES = 1024


@dataclass(frozen=True)
class Asked:
    """As the command line has it."""

    name: str
    allow: tuple[str, ...]
    tier: str | None = None
    secret_on_stdin: bool = False
    show_secret: bool = False
    host: str | None = None
    bind: str = ""
    port: int = 0
    connections: int = 16
    lifetime: float = 86400.0
    idle: float = 600.0
    bwlimit: int = 0


def serve_dataset(config: Config, asked: Asked, announce: Callable[[Announcement], None]) -> None:
    """Serve until the end. Raises UsageError, SpecError, NotReady, HostError."""
    if not asked.secret_on_stdin and not asked.show_secret:
        raise UsageError("nobody would know the secret: --show-secret, or --secret-stdin")
    node = node_name(os.environ)
    names = Names(node, getpass.getuser())
    place = place_of(config, JobSpec(dataset=asked.name, tier=asked.tier), names)
    assert place is not None
    state_dir = state_folder(config, node)
    content_id = place.content_id or _recorded_id(place, state_dir)
    proof = functools.partial(
        not_servable,
        content_id=content_id,
        state_dir=state_dir,
        name=place.name,
        tier=place.tier,
    )
    serving = _serving(asked, place.path, content_id, node)
    give_way()
    stop = threading.Event()
    for number in _ENDS:
        signal.signal(number, lambda *_: stop.set())
    with PeerDaemon(serving, proof) as daemon:
        announce(daemon.announcement(asked.show_secret))
        sys.stdout.flush()
        why = daemon.serve(stop)
    if why is not None:
        raise NotReady(f"{place.path} is served no longer: {why}")


def give_way() -> None:
    """Whatever trains here goes first, on the CPUs and at the disks."""
    import psutil

    os.nice(19)
    psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _serving(asked: Asked, path: str, content_id: str, node: str) -> Serving:
    secret = _read_secret() if asked.secret_on_stdin else new_secret()
    return Serving(
        path=path,
        content_id=content_id,
        secret=secret,
        allow=networks_of(asked.allow),
        host=asked.host or node,
        bind=asked.bind,
        port=asked.port,
        connections_max=asked.connections,
        lifetime_s=asked.lifetime,
        idle_s=asked.idle,
        bandwidth_bytes_s=asked.bwlimit,
    )


def _read_secret() -> str:
    return checked_secret(sys.stdin.readline(_SECRET_LIMIT_BYTES).strip())


def _recorded_id(place: Place, state_dir: str) -> str:
    """Whatever version is here, when nobody asked for one. Raises NotReady."""
    try:
        record = records.load(state_dir, place.name, place.tier)
    except HostError as error:
        raise NotReady(f"{place.path} is not served: {error}") from error
    if record is None:
        raise NotReady(
            f"{place.path} is not served: this node has no record of it (dataset verify --record)"
        )
    return record.content_id
