"""Launch the command under its sampler, pass signals on, learn how it ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import slurm_io
from slurm_io.host.malloc_settings import with_lean_malloc
from slurm_io.runner.place import Place

_PR_SET_CHILD_SUBREAPER = 36
_SI_KERNEL = 0x80  # si_code of a signal the terminal sent: the command has had it already
_POLL_S = 0.2
END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

PASSED_ON = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGWINCH,
        signal.SIGALRM,
    }
)


@dataclass(frozen=True)
class Launched:
    """The running pair. `status_fd` carries what the launcher says of the command."""

    sampler: subprocess.Popen[bytes]
    status_fd: int


@dataclass(frozen=True)
class CommandEnd:
    """`status` is a raw wait status; `errno` is set instead when it could not be started.

    `told_to_end`: a signal that means the end came while it ran.
    """

    status: int
    errno: int | None = None
    told_to_end: bool = False

    @property
    def failed(self) -> bool:
        """Not started, ended by a signal, or with an exit code other than 0."""
        return self.errno is not None or self.status != 0


def launch(place: Place, argv: tuple[str, ...], *, hook: bool) -> Launched:
    """Start sampler and command. Signals to pass on are blocked here, not in the command."""
    _become_subreaper()
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
    launcher = [sys.executable, "-m", "slurm_io.sampler.launch"]
    blocked = ",".join(str(int(number)) for number in sorted(mask)) or "-"
    own = [str(place.spool), str(writer), hook_path(hook), str(place.ring_dir), blocked]
    sampler = subprocess.Popen(
        [*launcher, *own, "--", *argv],
        cwd=".",  # no posix_spawn: glibc's leaves signals 32 and 33 ignored in the child
        env=with_lean_malloc(os.environ),
        close_fds=False,  # descriptors the caller opened for the command (<(…), make's jobserver)
    )
    os.close(writer)
    return Launched(sampler, reader)


def hook_path(hook: bool) -> str:
    """The folder for PYTHONPATH that attaches the hook; "" without."""
    return str(Path(slurm_io.__file__).parent / "hook" / "attach") if hook else ""


def wait_for_command(launched: Launched) -> CommandEnd:
    """Until the command has ended: pass signals to it, read what the launcher says."""
    talk = _Talk(launched.status_fd)
    while talk.end is None:
        _pass_signals(talk, launched.sampler)
        if talk.closed and talk.end is None:
            end = _wait_without_sampler(talk, launched.sampler)
            return replace(end, told_to_end=talk.told_to_end)
    os.close(launched.status_fd)
    return replace(talk.end, told_to_end=talk.told_to_end)


def stop(sampler: subprocess.Popen[bytes]) -> None:
    """Ask the sampler to end; a sampler that does not is killed: its stream stays readable."""
    with contextlib.suppress(ProcessLookupError):
        sampler.send_signal(signal.SIGTERM)
    try:
        sampler.wait(timeout=10)
    except subprocess.TimeoutExpired:
        sampler.kill()
        sampler.wait()


class _Talk:
    """The launcher's lines, read as they come."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pid: int | None = None
        self.end: CommandEnd | None = None
        self.closed = False
        self.told_to_end = False
        self._rest = b""

    def read(self, timeout_s: float) -> None:
        ready, _, _ = select.select([self.fd], [], [], timeout_s)
        if not ready:
            return
        chunk = os.read(self.fd, 4096)
        self.closed = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line.decode())

    def _take(self, line: str) -> None:
        word, number = line.split()
        if word == "pid":
            self.pid = int(number)
        elif word == "status":
            self.end = CommandEnd(int(number))
        else:
            self.end = CommandEnd(0, errno=int(number))


def _pass_signals(talk: _Talk, sampler: subprocess.Popen[bytes]) -> None:
    """One turn: the launcher's lines first, then whatever signal is waiting."""
    talk.read(_POLL_S)
    if talk.pid is not None:
        _reap_orphans({sampler.pid, talk.pid})
    while True:
        seen = signal.sigtimedwait(PASSED_ON, 0)
        if seen is None:
            return
        talk.told_to_end = talk.told_to_end or seen.si_signo in END_SIGNALS
        if talk.pid is None:
            talk.read(_POLL_S)
        if seen.si_code != _SI_KERNEL and talk.pid is not None and talk.end is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(talk.pid, seen.si_signo)
        if seen.si_signo == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # the shell waits for us, not for the command


def _wait_without_sampler(talk: _Talk, sampler: subprocess.Popen[bytes]) -> CommandEnd:
    """The sampler died: as its subreaper this process is now the command's parent."""
    sampler.wait()
    os.close(talk.fd)
    if talk.pid is None:
        return CommandEnd(0, errno=3)
    while True:
        done, status = os.waitpid(talk.pid, os.WNOHANG)
        if done:
            return CommandEnd(status)
        _reap_orphans({talk.pid})
        seen = signal.sigtimedwait(PASSED_ON | {signal.SIGCHLD}, _POLL_S)
        if seen is not None and seen.si_signo != signal.SIGCHLD and seen.si_code != _SI_KERNEL:
            os.kill(talk.pid, seen.si_signo)


def _reap_orphans(others: set[int]) -> None:
    """End the zombies that fell to us as subreaper; `others` are waited for elsewhere."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in others:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def _become_subreaper() -> None:
    """Orphans of the command come to us, so its exit status is never lost (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
