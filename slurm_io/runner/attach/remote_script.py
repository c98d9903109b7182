"""The two scripts that a running Python executes for us (PEP 768), as text.

They run in ``__main__`` of a stranger's program: they leave no name there, raise nothing, and do
nothing unless the process is the very one meant. The answer is one word in a file of the ring
folder, put in place whole.
"""

from __future__ import annotations

_SCRIPT = """\
def _slurm_io_late():
    import os, sys
    try:
        with open("/proc/self/stat", "rb") as stat:
            starttime = int(stat.read().rpartition(b")")[2].split()[19])
        if (os.getpid(), starttime) not in {who!r}:
            return
        try:
            said = _slurm_io_work(sys)
        except BaseException as error:
            said = "failed: %s: %s" % (type(error).__name__, error)
        aside = {answer!r} + ".new"
        with open(aside, "w") as file:
            file.write(said)
        os.rename(aside, {answer!r})
    except BaseException:
        pass
def _slurm_io_work(sys):
{work}
try:
    _slurm_io_late()
finally:
    del _slurm_io_late, _slurm_io_work
"""

_LOAD = """\
    import os
    if "slurm_io_hook" not in sys.modules:
        if os.environ.get("SLURM_IO_RING_DIR"):
            return "there"
        sys.path.insert(0, {home!r})
        try:
            import slurm_io_hook
        finally:
            sys.path.remove({home!r})
    from slurm_io_hook.late import join
    return join({folder!r})
"""

_LEAVE = """\
    if "slurm_io_hook" not in sys.modules:
        return "left"
    from slurm_io_hook.late import leave
    return leave()
"""

Who = tuple[tuple[int, int], ...]
"""(pid, starttime) as the process may see them: its pid here, or the one in its container."""


def load_script(who: Who, home: str, folder: str, answer: str) -> str:
    """Load the hook of the folder `home` and let it record into `folder`."""
    return _SCRIPT.format(who=who, answer=answer, work=_LOAD.format(home=home, folder=folder))


def leave_script(who: Who, answer: str) -> str:
    """Take the hook out again."""
    return _SCRIPT.format(who=who, answer=answer, work=_LEAVE)
