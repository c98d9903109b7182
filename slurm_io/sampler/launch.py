"""Start the user's command, then become its sampler: ``python -m slurm_io.sampler.launch``.

Under Yama mode 1 only an ancestor may read a process's ``syscall`` file, so in user mode the
sampler has to be the command's parent. The command is started first, before anything of the
sampler is imported, and its exit status goes through a pipe to ``slurm-io run`` the moment it ends.
When the sampler itself dies, the command falls to ``slurm-io run`` (a child subreaper), which then
waits for it: the command never notices.

Usage: ``launch SPOOL STATUS_FD HOOK_PATH RING_DIR MASK -- COMMAND…``; HOOK_PATH "" = no hook, MASK
= numbers of the signals that were blocked when ``slurm-io run`` began ("-" = none), and are so in
the command. Lines on STATUS_FD: ``pid N``, then ``status N`` (a raw wait status), or ``errno N``
when the command could not be started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from slurm_io.host.malloc_settings import without_our_malloc


def main(arguments: list[str]) -> int:
    """Launch `COMMAND`, report its pid and end on STATUS_FD, sample until it is gone."""
    spool, status_fd, hook_path, ring_dir = arguments[0], int(arguments[1]), *arguments[2:4]
    blocked, command = arguments[4], arguments[6:]
    os.set_inheritable(status_fd, False)
    mask = [] if blocked == "-" else [int(number) for number in blocked.split(",")]
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    environment = command_environment(without_our_malloc(os.environ), hook_path, ring_dir)
    try:
        # With a cwd, because without one Python may take posix_spawn, and glibc's leaves signals 32
        # and 33 ignored in the command.
        process = subprocess.Popen(command, env=environment, close_fds=False, cwd=".")
    except OSError as error:
        os.write(status_fd, f"errno {error.errno}\n".encode())
        return 0
    # Until the sampler stands: told to stop during its imports, it must still write its facts.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.write(status_fd, f"pid {process.pid}\n".encode())
    _let_go_of_inherited_files(status_fd, Path(spool) / "sampler.log")
    _report_end_of(process, status_fd)
    _leave_signals_to_the_command()
    return _sample(Path(spool), process)


def _sample(spool: Path, process: subprocess.Popen[bytes]) -> int:
    try:
        from slurm_io.sampler.main import run  # only now: the command does not wait for imports

        return run(spool, root_pid=process.pid)
    except Exception:  # noqa: BLE001 - whatever it is, it goes to sampler.log and no further
        traceback.print_exc()
        return 3


def command_environment(
    environment: dict[str, str], hook_path: str, ring_dir: str
) -> dict[str, str]:
    """The environment of the command: the caller's, with the hook's folder on PYTHONPATH."""
    if hook_path:
        old = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{hook_path}{os.pathsep}{old}" if old else hook_path
        environment["SLURM_IO_RING_DIR"] = ring_dir
    return environment


def _report_end_of(process: subprocess.Popen[bytes], status_fd: int) -> None:
    def on_child(_signal: int, _frame: object) -> None:
        try:
            done, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            return
        if done:
            process.returncode = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(BrokenPipeError):  # the wrapper was killed: nobody asks
                os.write(status_fd, f"status {status}\n".encode())

    signal.signal(signal.SIGCHLD, on_child)
    on_child(0, None)  # it may have ended before the handler stood


def _let_go_of_inherited_files(keep_fd: int, log: Path) -> None:
    """The command's pipes and terminal are not ours to hold open or to write to."""
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    for own, standard in ((null_fd, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(own, standard)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    for fd in range(3, highest + 1):
        if fd != keep_fd:
            with contextlib.suppress(OSError):
                os.close(fd)


def _leave_signals_to_the_command() -> None:
    """Ctrl-C reaches the whole foreground group: it is meant for the command, not for us."""
    for name in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(name, signal.SIG_IGN)


if __name__ == "__main__":
    # Not through the interpreter's shutdown: it would reap the command and lose its status.
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
