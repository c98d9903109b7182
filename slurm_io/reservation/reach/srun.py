"""One srun of ours: its words, its life, and that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import pwd
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import IO, Self

from slurm_io.errors import HostError
from slurm_io.slurm.clean_environment import clean_environment

Take = Callable[[bytes], None]
_POLL_S = 0.2
_CHUNK_BYTES = 65536
_LONGEST_LINE = 4 * 1024 * 1024


def environment(uid: int | None = None) -> dict[str, str]:
    """What the tasks may see: nothing of the caller's own words, least of all its secrets."""
    given = clean_environment(os.environ)
    kept: dict[str, str] = {
        name: given[name] for name in ("SLURM_CONF", "PYTHONPATH") if name in given
    }
    account = pwd.getpwuid(os.geteuid() if uid is None else uid)
    return {
        **kept,
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "SLURM_IO_HOOK": "0",
    }


class Srun:
    """A running srun; a context manager that ends it with its process group.

    `uid`: whose it is, None = the caller's. Raises HostError when it cannot be started.
    """

    def __init__(self, argv: list[str], uid: int | None, after_kill_s: float) -> None:
        self._after_kill_s = after_kill_s
        try:
            user, group, groups = _account(uid)
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(uid),
                cwd="/",
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=groups,
            )
        except (OSError, KeyError) as error:
            raise HostError(f"cannot run {argv[0]}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def talk(
        self,
        stdin: bytes,
        is_over: Callable[[], bool],
        out: Take,
        err: Take,
        more: Callable[[], bytes] | None = None,
    ) -> bool:
        """Feed it and hand on its lines until it closes both outputs; False when `is_over` was
        true before. With `more`, stdin stays open and gets what that returns, a few bytes."""
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        takers: Mapping[int, _Lines] = {
            process.stdout.fileno(): _Lines(out),
            process.stderr.fileno(): _Lines(err),
        }
        feed = _Feed(process.stdin, stdin, more)
        with selectors.DefaultSelector() as selector:
            for descriptor in takers:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                if is_over():
                    return False
                feed.tick()
                for key, _ in selector.select(0.01 if feed.is_late else _POLL_S):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    takers[key.fd].feed(chunk)
                    if not chunk:
                        selector.unregister(key.fd)
        return True

    def end(self) -> int | None:
        """Its exit code; None when it had to be killed and did not even die of that."""
        process = self._process
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5 if number is signal.SIGTERM else self._after_kill_s)
                break
            # The group: Slurm's plugins may have started helpers.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(self._after_kill_s)
        return None


class _Lines:
    """Cuts what comes into lines; one without an end is dropped, not kept."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""


class _Feed:
    """srun's stdin: what it is to get first, then what comes, never waiting for srun."""

    def __init__(self, pipe: IO[bytes], first: bytes, more: Callable[[], bytes] | None) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe, self._rest, self._more = pipe, memoryview(first), more

    @property
    def is_late(self) -> bool:
        """Whether srun has not taken all yet."""
        return bool(self._rest)

    def tick(self) -> None:
        """Write what srun takes now."""
        if self._pipe.closed:
            return
        if not self._rest and self._more is not None:
            self._rest = memoryview(self._more())
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._pipe.fileno(), self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest, self._more = self._rest[:0], None
        if not self._rest and self._more is None:
            self._pipe.close()


def _account(uid: int | None) -> tuple[int | None, int | None, list[int] | None]:
    """User, group and further groups for Popen; None leaves the caller's."""
    if uid is None or uid == os.geteuid():
        return None, None, None
    account = pwd.getpwuid(uid)
    return uid, account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid)
