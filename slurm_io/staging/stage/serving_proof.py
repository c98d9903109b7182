"""May this copy be handed on: only when this node's own record calls it ready."""

from __future__ import annotations

import os

from slurm_io.errors import HostError
from slurm_io.staging import record as records
from slurm_io.staging.verify import identity
from slurm_io.staging.verify.l0 import Here, judge


def not_servable(
    folder_fd: int, content_id: str, state_dir: str, name: str, tier: str
) -> str | None:
    """None when the open folder holds `content_id`, verified here; else one line: why not."""
    try:
        record = records.load(state_dir, name, tier)
    except HostError as error:
        return f"the record cannot be read: {error}"
    answer = judge(record, None, content_id, _here(folder_fd))
    if record is None or answer.answer != "OK" or record.state != "ready":
        return answer.text
    return None


def _here(folder_fd: int) -> Here:
    mount = identity.mount_of(folder_fd, identity.mounts_now())
    filesystem = None if mount is None else identity.file_system_of(folder_fd, mount)
    return Here(identity.this_machine(), filesystem, os.fstat(folder_fd).st_ino)
