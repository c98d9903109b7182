"""The runtime folder: what a prolog (root) leaves for the task prolog (the user).

Built under a name nobody knows and renamed into place, so that a task prolog sees all of it or
nothing. An older one of the same job is moved aside, not deleted: its ring folder is the user's
and may hold anything; the epilog's finisher deletes it at leisure.
"""

from __future__ import annotations

import contextlib
import os

from slurm_io.errors import HostError
from slurm_io.host.root_folders import child_folder, trusted_folder, write_file
from slurm_io.records import dataclass
from slurm_io.slurm.environment import HookJob

RUNTIME_MODE = 0o755
RING_MODE = 0o700
OLD_PREFIX = ".old-"


@dataclass(frozen=True)
class RuntimeContent:
    """What the folder says. `hook_path` "" = no hook; `stop` None = the task may start."""

    restart: int
    hook_path: str
    message: str
    stop: int | None = None


def publish(job: HookJob, runtime_dir: str, content: RuntimeContent) -> None:
    """Put the folder in place, replacing an older one as a whole. Raises HostError."""
    name = job.identity.job
    temporary = f".new-{name}-{os.urandom(8).hex()}"
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(trusted_folder(runtime_dir, create=True, mode=RUNTIME_MODE))
        node = child_folder(top, job.node, runtime_dir, RUNTIME_MODE)
        stack.callback(os.close, node)
        folder = child_folder(node, temporary, runtime_dir, 0o700)
        stack.callback(os.close, folder)
        _fill(folder, job, content)
        try:
            _swap_in(node, temporary, name)
        except OSError as error:
            raise HostError(f"{runtime_dir}: cannot publish {name}: {error.strerror}") from error


def _fill(folder: int, job: HookJob, content: RuntimeContent) -> None:
    write_file(folder, "restart", f"{content.restart}\n".encode())
    write_file(folder, "hook_path", f"{content.hook_path}\n".encode() if content.hook_path else b"")
    # The user's alone: it names his paths and datasets. Nobody else is in here yet.
    write_file(folder, "message", content.message.encode("utf-8", "backslashreplace"), 0o400)
    _give(folder, "message", job.identity.uid)
    if content.stop is not None:
        write_file(folder, "stop", f"{content.stop}\n".encode())
    ring = child_folder(folder, "ring", "runtime folder", RING_MODE)
    try:
        os.fchown(ring, job.identity.uid, job.gid)
    except OSError as error:
        raise HostError(f"runtime folder: ring: {error.strerror}") from error
    finally:
        os.close(ring)
    os.fchmod(folder, RUNTIME_MODE)


def _give(folder: int, name: str, uid: int) -> None:
    try:
        os.chown(name, uid, -1, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise HostError(f"runtime folder: {name}: {error.strerror}") from error


def _swap_in(node: int, temporary: str, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        old = f"{OLD_PREFIX}{name}-{os.urandom(8).hex()}"
        os.rename(name, old, src_dir_fd=node, dst_dir_fd=node)
    os.rename(temporary, name, src_dir_fd=node, dst_dir_fd=node)
