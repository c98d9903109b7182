"""A training loop without torch, for `make demo`: read a file, "compute" for 30 ms, repeat.

The only line about profiling is `watch`, which is there when `slurm-io run` started the script.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

COMPUTE_S = 0.03
EVERY = 50

try:
    from slurm_io_hook import watch
except ImportError:

    def watch(iterable: Iterable[bytes]) -> Iterable[bytes]:
        """Nobody is watching."""
        return iterable


class Batches:
    """`steps` batches, each the content of one file of the dataset."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._files = sorted(folder.iterdir())
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[bytes]:
        for step in range(self._steps):
            yield self._files[step % len(self._files)].read_bytes()


def main(folder: Path, steps: int) -> None:
    """Train; the "model" is a checksum, the GPU kernel a sleep."""
    model = 0
    for step, batch in enumerate(watch(Batches(folder, steps)), start=1):
        model = zlib.crc32(batch, model)
        time.sleep(COMPUTE_S)
        if step % EVERY == 0:
            print(f"step {step}/{steps} loss {model / 2**32:.3f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
