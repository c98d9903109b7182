"""The frame of Prolog and Epilog: configuration, deadline, log, and what slurmd gets to see."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from slurm_io.config import DEFAULT_PATH, Config, load
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.records import dataclass
from slurm_io.slurm.environment import HookJob, read_environment

DRAINED_EXIT_CODE = 97  # no code that Python, a shell or a signal ends with; see prolog.sh


class DeadlineError(Exception):
    """The hook's own time is over."""


class NodeDrainedError(Exception):
    """The node has a fault of its own and was drained (``checks.drain_exit``): the one reason for
    which a prolog may fail. Its text is the line for the log."""


@dataclass(frozen=True)
class HookCall:
    """One call by slurmd. `config_path` is what the entry script named, `ends_s` (monotonic) when
    the hook's time is over."""

    job: HookJob
    config: Config
    config_path: str
    ends_s: float = float("inf")

    def time_left_s(self) -> float:
        """Seconds until the deadline."""
        return self.ends_s - time.monotonic()


def run_hook(name: str, work: Callable[[HookCall], str], arguments: Sequence[str] | None) -> int:
    """Run `work` within the configured deadline; its answer is one line for the log.

    `arguments` are ``[--config FILE]``, sys.argv's by default. Returns what slurmd is to see.
    """
    os.umask(0o022)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, a dead child's pid is free for others
    words = list(sys.argv[1:] if arguments is None else arguments)
    log = BoundedLog(Config.log_file, Config.log_max_bytes, name)
    try:
        os.chdir("/")
        path = words[1] if words[:1] == ["--config"] and len(words) > 1 else None
        config = load(path)
        log = BoundedLog(config.log_file, config.log_max_bytes, name)
        ends_s = _arm(config.prolog.deadline_s)
        job = read_environment(os.environ)
        log = BoundedLog(log.path, log.max_bytes, f"{name} {job.node} job {job.identity.key()}")
        log.write(work(HookCall(job, config, path or DEFAULT_PATH, ends_s)))
    except Exception as error:  # noqa: BLE001 - the frame's very purpose: nothing reaches slurmd
        return exit_code(error, log)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return exit_code(None, log)


def exit_code(failure: Exception | None, log: BoundedLog) -> int:
    """The one place that decides what slurmd sees.

    ======================================  =========  ========================================
    what happened                           exit code  what follows
    ======================================  =========  ========================================
    all went well                           0          the job starts, profiled
    the user's request is malformed         0          the job starts; the task prolog says so
    site policy stops such a job            0          the task prolog fails it, the node stays
    configuration broken or missing         0          the job runs unprofiled; log
    folders or sampler could not be made    0          the job runs unprofiled; log
    deadline over                           0          the job runs, perhaps unprofiled; log
    a check fails, stops the job            0          the task prolog fails it, the node stays
    a check fails, drains the node          0          as before; drained seconds later, detached
    the same with checks.drain_exit         97         prolog.sh exits 1: requeued, held, drained
    not called by slurmd, a fault of ours   0          log
    ======================================  =========  ========================================

    Another exit code drains the node (and holds the job), so a fault of ours never gives one.
    prolog.sh turns 97 into 1 and every other code (a crash, a signal, no memory) into 0.
    """
    if isinstance(failure, NodeDrainedError):
        log.write(str(failure))
        return DRAINED_EXIT_CODE
    if failure is not None:
        log.write(f"gave up: {type(failure).__name__}: {failure}")
    return 0


def _arm(deadline_s: float) -> float:
    """Have DeadlineError raised after `deadline_s`; when that is, monotonic s."""

    def expire(_signal: int, _frame: object) -> None:
        raise DeadlineError(f"not done after {deadline_s:g} s")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, deadline_s)
    return time.monotonic() + deadline_s
