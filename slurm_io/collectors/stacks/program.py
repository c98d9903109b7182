"""Finds py-spy: beside this Python first (installed together), then where tools are."""

from __future__ import annotations

import os
import stat
import sys

from slurm_io.host.run import TOOL_FOLDERS

NAME = "py-spy"


def find_py_spy(search_path: str | None = None) -> str | None:
    """Path of a py-spy that nobody but root and ourselves can replace; None without one.

    `search_path` is PATH, looked through last.
    """
    folders = [os.path.dirname(sys.executable), *TOOL_FOLDERS]
    folders += [folder for folder in (search_path or "").split(":") if folder.startswith("/")]
    for folder in folders:
        path = os.path.join(folder, NAME)
        if (
            _is_ours(folder)
            and _is_ours(path)
            and os.path.isfile(path)
            and os.access(path, os.X_OK)
        ):
            return path
    return None


def _is_ours(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
