"""slowfs: a folder seen through a FUSE file system that is slow, full or broken on demand.

Readers really sleep in the kernel: D ``folio_wait_bit_common`` through the page cache, S
``request_wait_answer`` for direct reads, opens, stats and writes. Needs FUSE and nothing of Slurm.

    with SlowFs(backing, mountpoint, SlowFsSettings(read_latency_s=0.02)) as slow:
        train(slow.mountpoint)
        slow.change(read_latency_s=0.0)
        print(slow.ledger()["classes"]["read"])
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.labs.mounts import mounted_at, unmount_lazily
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings

REPOSITORY = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 5.0


def fuse_missing() -> str | None:
    """Why slowfs cannot run here, or None when it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no access to /dev/fuse"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not installed (Debian package fuse3)"
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError, AttributeError) as error:
        return f"mfusepy does not load: {error} (pip package mfusepy, Debian package libfuse3-3)"
    return None


class SlowFsError(RuntimeError):
    """The mount did not come up, or the server refused new settings."""


class SlowFs:
    """One mount, alive inside the ``with`` block and gone after it, whoever still uses it.

    `cache` is fixed per mount, see :data:`tests.labs.slowfs_settings.CacheMode`; `attr_timeout_s`
    is how long the kernel may answer stat and lookup by itself. Both folders are made when
    missing; a mount point that is a link or not empty is refused.
    """

    def __init__(
        self,
        backing: Path,
        mountpoint: Path,
        settings: SlowFsSettings | None = None,
        *,
        cache: CacheMode = "direct",
        attr_timeout_s: float = 1.0,
        source: str = "slowfs",
    ) -> None:
        self.backing = backing
        self.mountpoint = mountpoint
        self.settings = settings or SlowFsSettings()
        self._cache = cache
        self._attr_timeout_s = attr_timeout_s
        self._source = source
        self._server: subprocess.Popen[bytes] | None = None
        self._state = Path()
        self._last_ledger: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.backing.mkdir(parents=True, exist_ok=True)
        self._prepare_mountpoint()
        self._state = Path(tempfile.mkdtemp(prefix="slowfs-"))
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(SlowFsError):
            self._last_ledger = self.ledger()
        self._stop()

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._server is None:
            raise SlowFsError("slowfs is not mounted")
        return self._server.pid

    def change(self, settings: SlowFsSettings | None = None, **changes: Any) -> dict[str, Any]:
        """Put new settings, or the present ones with `changes`, into force; returns the ledger."""
        self.settings = replace(settings or self.settings, **changes)
        return self._ask({"set": json.loads(self.settings.to_json())})

    def ledger(self) -> dict[str, Any]:
        """What was injected so far (after the block: up to its end), see `slowfs_ledger`."""
        return self._ask({}) if self._server is not None else self._last_ledger

    def _prepare_mountpoint(self) -> None:
        # As root one could cover any folder of the machine: only an empty one of our own will do.
        if self.mountpoint.is_symlink():
            raise SlowFsError(f"{self.mountpoint} is a symbolic link: mount on a plain folder")
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        if any(self.mountpoint.iterdir()):
            raise SlowFsError(f"{self.mountpoint} is not empty: mount on an empty folder")

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.labs.slowfs_server", json.dumps(self._arguments())]
        with open(self._state / "log", "wb") as log:
            self._server = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not mounted_at(self.mountpoint):
            if self._server.poll() is not None or time.monotonic() > deadline_s:
                said = (self._state / "log").read_text(errors="replace")
                raise SlowFsError(f"slowfs did not mount at {self.mountpoint}: {said.strip()}")
            time.sleep(0.01)

    def _arguments(self) -> dict[str, Any]:
        """All the server is told."""
        return {
            "backing": os.fspath(self.backing.resolve()),
            "mountpoint": os.fspath(self.mountpoint.resolve()),
            "socket": os.fspath(self._state / "control"),
            "settings": json.loads(self.settings.to_json()),
            "cache": self._cache,
            "attr_timeout_s": self._attr_timeout_s,
            "source": self._source,
            "allow_other": os.geteuid() == 0,
            "parent": os.getpid(),
        }

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
                control.settimeout(STOP_TIMEOUT_S)
                control.connect(os.fspath(self._state / "control"))
                with control.makefile("rw", encoding="utf-8") as stream:
                    stream.write(json.dumps(question) + "\n")
                    stream.flush()
                    answer: dict[str, Any] = json.loads(stream.read())
        except (OSError, ValueError) as error:
            raise SlowFsError(f"slowfs at {self.mountpoint} does not answer: {error}") from error
        if "error" in answer:
            raise SlowFsError(answer["error"])
        return answer

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(STOP_TIMEOUT_S)
        if mounted_at(self.mountpoint):
            unmount_lazily(self.mountpoint)
        if server is not None and server.poll() is None:
            server.kill()
            server.wait()
        shutil.rmtree(self._state, ignore_errors=True)
