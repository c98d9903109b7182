"""What a killed copy left behind and may be removed: told by strict rules, and by age."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from slurm_io.staging.manifest.exclude import Exclusions

_COPIES = frozenset(
    {"rsync's temporary files", "s5cmd's temporary files", "rclone's temporary files"}
)
_FOLDERS = frozenset({".~tmp~", ".rsync-partial"})


def is_old_debris(
    raw: bytes, facts: os.stat_result, known: Collection[bytes], before_s: float
) -> bool:
    """Whether an entry that no manifest names was a copy's and was last touched before `before_s`.

    `known`: the names that belong in its folder. What merely looks temporary (``x.tmp``) may be a
    user's file: it is listed as extra and stays.
    """
    if max(facts.st_mtime, facts.st_ctime) > before_s or raw.rpartition(b"/")[2] in known:
        return False
    is_folder = stat.S_ISDIR(facts.st_mode)
    if not is_folder and not stat.S_ISREG(facts.st_mode):
        return False
    reason = Exclusions().reason(raw, is_folder, known)
    return reason in (_FOLDERS if is_folder else _COPIES)
