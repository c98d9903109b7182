"""The few files an rsync daemon needs: configuration and secret, in a folder that only we can read.

They are gone when the serving ends; what a killed server left is removed by the next one. rsync
insists on files: it resolves the names of descriptors itself and finds nothing there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurm_io.staging.stage.peer_model import MODULE, USER

_PREFIX = ".slurm_io-serve-"
_REFUSED = (
    # Reading for others than the asker's own file, or work that training would feel.
    "copy-links copy-dirlinks copy-unsafe-links checksum compress "
    "delete remove-source-files write-devices copy-devices"
)


@dataclass(frozen=True)
class PeerFiles:
    """Paths of a daemon's files."""

    config: str
    secrets: str


@contextlib.contextmanager
def peer_files(root_fd: int, secret: str, allow: Sequence[str]) -> Iterator[PeerFiles]:
    """Write them, and remove them. `allow`: addresses or networks. Raises OSError."""
    base = base_folder()
    _sweep(base)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
    try:
        with open(os.open(f"{folder}/lock", os.O_CREAT | os.O_RDWR, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            files = PeerFiles(f"{folder}/rsyncd.conf", f"{folder}/secrets")
            _write(files.secrets, f"{USER}:{secret}\n")
            _write(files.config, config_text(root_fd, files.secrets, allow))
            yield files
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def base_folder() -> str:
    """Where they lie: in memory, and nobody else's business, where that is possible."""
    return "/run" if os.geteuid() == 0 and os.access("/run", os.W_OK) else tempfile.gettempdir()


def config_text(root_fd: int, secrets: str, allow: Sequence[str]) -> str:
    """An rsyncd.conf with one read-only module.

    The folder goes by our open descriptor: neither a swapped path nor an odd name can lead
    elsewhere. As root, the daemon shuts itself into it and becomes the folder's owner.
    """
    owner = os.fstat(root_fd)
    lines = {
        "path": f"/proc/{os.getpid()}/fd/{root_fd}",
        "use chroot": "yes" if os.geteuid() == 0 else "no",
        "read only": "yes",
        "list": "no",
        "auth users": USER,
        "secrets file": secrets,
        "strict modes": "yes",
        "hosts allow": " ".join(allow),
        "numeric ids": "yes",
        "munge symlinks": "no",
        "reverse lookup": "no",
        "refuse options": _REFUSED,
        "timeout": "600",
        "log file": os.devnull,
    }
    if os.geteuid() == 0:
        lines |= {"uid": str(owner.st_uid), "gid": str(owner.st_gid)}
    body = "".join(f"  {name} = {value}\n" for name, value in lines.items())
    return f"[{MODULE}]\n{body}"


def _write(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(text)


def _sweep(base: str) -> None:
    """Remove the folders of servers that were killed: nobody holds their lock."""
    for name in os.listdir(base):
        folder = f"{base}/{name}"
        if not name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            if os.lstat(folder).st_uid != os.geteuid():
                continue
            with open(os.open(f"{folder}/lock", os.O_RDWR | os.O_NOFOLLOW)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
