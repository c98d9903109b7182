"""File systems that a node does not have cost its sampler next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.collectors.fake_host import write_tree

CLIENTS = ("weka", "beegfs", "gpfs", "ceph", "fuse", "juicefs", "nvidia_fs")
PARSERS = ("weka", "beegfs", "gpfs", "ceph", "juicefs", "nvidia_fs", "fuse_connections")
PROGRAM = """
import sys
from pathlib import Path
from slurm_io.collectors.base import COLLECTORS
from tests.collectors.fake_host import context
for name in sys.argv[2:]:
    one = COLLECTORS.get(name)()
    assert one.open(context(Path(sys.argv[1]))).state == "absent", name
    one.close()
print(*sys.modules)
"""


def test_no_parser_is_loaded_without_a_mount(tmp_path: Path) -> None:
    write_tree(tmp_path, {"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *CLIENTS],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    loaded = set(done.stdout.split())
    unwanted = {f"slurm_io.filesystems.{name}" for name in PARSERS}
    assert not {name for name in loaded if name.startswith(tuple(unwanted))}
