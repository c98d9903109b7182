"""Which debugfs folder belongs to which Ceph mount.

A folder is called ``<fsid>.client<id>``. A mount does not say its id in mountinfo; virtual
attributes of its root folder do, ``ceph.cluster_fsid`` and ``ceph.client_id``, and asking for them
may hang. Source: fs/ceph/xattr.c of the kernel.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_FOLDER = re.compile(r"(?P<fsid>[0-9a-f-]{36})\.client(?P<number>\d{1,20})", re.ASCII)


def client_folders(root: Path) -> list[str] | None:
    """Names of the folders that hold metrics (those of block devices have none); None when the
    place cannot be listed."""
    try:
        folders = sorted(root.iterdir())
    except OSError:
        return None
    return [
        folder.name
        for folder in folders
        if _FOLDER.fullmatch(folder.name) and (folder / "metrics").exists()
    ]


def ask_client(mount_point: str) -> str:
    """The folder's name of a mount. May hang: call it through a probe.

    Raises:
        OSError: the attributes cannot be read (before kernel 5.9 there are none).
    """
    fsid = os.getxattr(mount_point, "ceph.cluster_fsid").decode("ascii", "replace").strip("\0")
    client = os.getxattr(mount_point, "ceph.client_id").decode("ascii", "replace").strip("\0")
    return f"{fsid}.{client}"
