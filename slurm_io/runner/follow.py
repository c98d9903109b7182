"""What a follower does: take the hook's environment and become the command, in place.

No process of ours remains, so exit code, signals and output cannot be in our way.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from slurm_io.runner.child import CommandEnd, hook_path
from slurm_io.sampler.launch import command_environment


def become(argv: tuple[str, ...], ring_dir: Path, *, hook: bool) -> CommandEnd:
    """Exec the command. Returns only when that failed, with its errno."""
    environment = command_environment(dict(os.environ), hook_path(hook), str(ring_dir))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, the command must not
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        return CommandEnd(0, errno=error.errno)
