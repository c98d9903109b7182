"""Extra entries of a folder: what killed copies left behind, and what is no part of any version.

The rules by which a manifest leaves names out (see ``manifest.exclude``) come first, so that what a
build passed over is no surprise here; then further temporary names, harmless to be generous with
because the file is extra in any case.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from slurm_io.staging.manifest.exclude import Exclusions

_OTHER_DEBRIS = re.compile(
    rb".+\.[0-9A-Fa-f]{8}"  # aws s3 cp
    rb"|\..+\.[A-Za-z0-9]{6}"  # rsync, whatever its six characters
    rb"|.+\.(?:partial|part|tmp|temp|incomplete|aria2|crdownload|filepart|download)",
    re.DOTALL,
)
_DEBRIS_FOLDERS = frozenset({b".~tmp~", b".rsync-partial"})


def kind_of_extra(
    path: bytes, is_folder: bool, known: Collection[bytes]
) -> Literal["own", "debris", "extra"]:
    """``own`` is no part of any version (our files, snapshots, lost+found); `known`: names that
    belong in the folder."""
    name = path.rpartition(b"/")[2]
    if is_folder and name in _DEBRIS_FOLDERS:
        return "debris"
    reason = Exclusions().reason(path, is_folder, known)
    if reason == "own" or (is_folder and reason is not None):
        return "own"
    is_debris = not is_folder and (reason is not None or _is_temporary(name, known))
    return "debris" if is_debris else "extra"


def _is_temporary(name: bytes, known: Collection[bytes]) -> bool:
    if _OTHER_DEBRIS.fullmatch(name):
        return True
    # s5cmd appends a random number of any length to the final name.
    cuts = range(len(name) - 4, max(0, len(name) - 21), -1)
    return any(name[cut:].isdigit() and name[:cut] in known for cut in cuts)
