"""Starts the hook in every Python process of the job, then lets the next sitecustomize run.

Python runs only the first sitecustomize on its path. This one takes itself out of the way, imports
the next, and when there is none fails as if it did not exist: a user's own module of that name can
still be imported. It must parse on any Python, 2.7 included: system tools of the job see it too.
"""

import os
import sys


def _start_hook():
    # type: () -> None
    if sys.version_info < (3, 8) or not os.environ.get("SLURM_IO_RING_DIR"):
        return
    if os.environ.get("SLURM_IO_HOOK") == "0":
        return
    try:
        import slurm_io_hook  # type: ignore[import-not-found]  # noqa: F401
    except Exception as error:
        if os.environ.get("SLURM_IO_HOOK_DEBUG") == "1":
            sys.stderr.write("slurm_io hook: not started: %r\n" % (error,))


def _is_ours(folder):
    # type: (str) -> bool
    try:
        return os.path.realpath(folder) == os.path.realpath(os.path.dirname(__file__))
    except Exception:  # the current folder is gone, or the entry is no path
        return False


def _import_next():
    # type: () -> None
    """The next sitecustomize on the path; its errors are its own and go to whoever imported us."""
    removed = [(place, folder) for place, folder in enumerate(sys.path) if _is_ours(folder)]
    for _place, folder in removed:
        sys.path.remove(folder)
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    finally:
        for place, folder in removed:
            sys.path.insert(place, folder)
        if "sitecustomize" not in sys.modules and ours is not None:
            sys.modules["sitecustomize"] = ours


_start_hook()
_import_next()
