"""A room for hooks: root-owned folders of their own, nothing left running."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.slurmd_room import SlurmdRoom


@pytest.fixture
def room() -> Iterator[SlurmdRoom]:
    if os.geteuid() != 0:
        pytest.skip("slurmd runs hooks as root, and they hand folders to users")
    # Not tmp_path: pytest closes its parent to other users, and the job's user passes through.
    folder = Path(tempfile.mkdtemp(prefix="sio-room-"))
    folder.chmod(0o755)
    made = SlurmdRoom(folder)
    made.write_config()
    try:
        yield made
    finally:
        made.clean_up()
        shutil.rmtree(folder, ignore_errors=True)
