"""What a finisher knows about its job, and the lock that keeps two finishers of it apart.

Read from the node's spool folder, which is root's and closed to everybody else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.host.root_folders import read_file, trusted_folder
from slurm_io.model import JobIdentity, SamplerSpec


@dataclass(frozen=True)
class Case:
    """One job on one node, at its end. `exit_code` None = Slurm did not say."""

    job: JobIdentity
    node: str
    exit_code: int | None

    def store_name(self) -> str:
        """``slurm-io-JOB`` and for a requeued job ``slurm-io-JOB.RESTART``."""
        return f"slurm-io-{self.job.job}" + (f".{self.job.restart}" if self.job.restart else "")

    def nodes_expected(self) -> tuple[str, ...]:
        """All nodes of the job; this one alone where the list could not be read."""
        return self.job.nodes or (self.node,)


@contextlib.contextmanager
def locked_job_folder(spool: Path) -> Iterator[int | None]:
    """Descriptor of the folder above a node's spool, locked for the node; None when taken."""
    with trusted_folder(str(spool.parent)) as folder:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(lock_name(spool.name), flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield folder
        finally:
            os.close(lock)


def lock_name(node: str) -> str:
    """The lock's file beside a node's spool folder."""
    return f".{node}.lock"


def read_case(node_folder: int) -> Case:
    """The case from sampler.json and end.json. Raises StoreError without a usable sampler.json."""
    end = _json(read_file(node_folder, "end.json"))
    try:
        spec = SamplerSpec.from_dict(_json(read_file(node_folder, "sampler.json")))
    except (KeyError, TypeError) as error:
        raise StoreError(f"no usable sampler.json: {error}; look into the spool") from error
    return Case(spec.job, spec.node, end.get("exit_code"))


def _json(data: bytes | None) -> dict[str, Any]:
    try:
        content = json.loads(data or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
