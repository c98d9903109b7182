"""``mmpmon -p``: application I/O of this node for each GPFS file system, since mmfsd started.

One line a file system, pairs of ``_key_ value``::

    _fs_io_s_ _n_ 192.0.2.28 _nn_ node001 _rc_ 0 _t_ 1421869154 _tu_ 766776 _cl_ cl.example.org
    _fs_ gpfs0 _d_ 107 _br_ 3592793024 _bw_ 2552776479 _oc_ 6758 _cc_ 6542 _rdc_ 2923 _wc_ 176495
    _dir_ 1367 _iu_ 1418

``io_s`` is the whole node without _cl_ _fs_ _d_. A line whose _rc_ is not 0 holds no data. Bytes
are the application's, page pool hits included. Source: IBM Storage Scale documentation, "mmpmon".
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.counter_text import counter

_REQUESTS = ("_fs_io_s_", "_io_s_")
_NUMBERS = (
    "_t_", "_tu_", "_br_", "_bw_", "_oc_", "_cc_", "_rdc_", "_wc_", "_dir_", "_iu_",
)  # fmt: skip


class GpfsIo(NamedTuple):
    """One line. `filesystem` and `cluster` are None for the node's total."""

    node: str
    cluster: str | None
    filesystem: str | None
    disks: int | None
    time_s: int
    time_us: int
    read_bytes: int
    written_bytes: int
    opens: int
    closes: int
    reads: int
    writes: int
    readdirs: int
    inode_updates: int


class MmpmonAnswer(NamedTuple):
    """`refused`: lines whose return code says that there is no data."""

    lines: tuple[GpfsIo, ...]
    refused: int
    damaged: int


def parse_mmpmon(text: str) -> MmpmonAnswer:
    """Never raises: a line of another shape is counted and left out."""
    lines = []
    refused = damaged = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        pairs = dict(zip(words[1::2], words[2::2], strict=False))
        if words[0] in _REQUESTS and pairs.get("_rc_", "0") != "0":
            refused += 1
            continue
        one = _line(words[0], pairs)
        damaged += one is None
        lines += [] if one is None else [one]
    return MmpmonAnswer(tuple(lines), refused, damaged)


def _line(request: str, pairs: dict[str, str]) -> GpfsIo | None:
    values = [counter(pairs.get(key, "")) for key in _NUMBERS]
    numbers = [value for value in values if value is not None]
    filesystem = pairs.get("_fs_")
    is_whole = len(numbers) == len(_NUMBERS) and "_nn_" in pairs
    if request not in _REQUESTS or not is_whole or (request == "_fs_io_s_") != bool(filesystem):
        return None
    disks = counter(pairs.get("_d_", ""))
    return GpfsIo(pairs["_nn_"], pairs.get("_cl_"), filesystem, disks, *numbers)
