"""What is read of a GPU: one set of values, whoever made it. Pure data."""

from __future__ import annotations

import mmap
from typing import NamedTuple

from slurm_io.errors import HostError

Value = int | float | bool | str | None
Shared = bytearray | mmap.mmap

PARENT_COLUMNS = ("gpu", "mig", "uuid", "parent_uuid")
VALUE_COLUMNS = (
    "util_share", "mem_util_share", "sm_active_share", "tensor_active_share", "dram_active_share",
    "pcie_rx_mib_s", "mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes", "power_w",
    "energy_j", "sm_clock_mhz", "mem_clock_mhz", "throttle_reasons", "temperature_c", "pcie_gen",
    "pcie_width", "pcie_gen_max", "pcie_width_max", "ecc_uncorrected", "remapped_rows",
    "remap_pending", "xid",
)  # fmt: skip
"""Columns of table ``gpu`` behind the clocks, in schema order: whose values, then the values."""


class Identity(NamedTuple):
    """Which GPU, or which MIG instance of a GPU.

    `gpu` is the number nvidia-smi shows (AMD: place in the order of PCI addresses), `minor` the N
    of /dev/nvidiaN (AMD: of renderDN). `mig` is ``GI/CI``, the ids of GPU instance and compute
    instance, with `parent_uuid` the GPU they are part of; both None for a whole GPU.
    """

    gpu: int
    uuid: str | None
    minor: int | None
    bus: str
    name: str
    vendor: str
    mig: str | None = None
    parent_uuid: str | None = None


class NoneOfTheJobs(HostError):
    """No GPU of this vendor is among those wished for."""


class Files(NamedTuple):
    """Device files: the N of /dev/nvidiaN, and of /dev/dri/renderDN."""

    nvidia: frozenset[int] = frozenset()
    render: frozenset[int] = frozenset()

    def with_all_of(self, other: Files) -> Files:
        """Both together."""
        return Files(self.nvidia | other.nvidia, self.render | other.render)


class Wish(NamedTuple):
    """Which GPUs to read, and who says so.

    `words`: numbers and UUIDs as Slurm and CUDA write them; `files`: device files, where only those
    are known; both None: every GPU that can be seen. `source` is for people; `is_known` False:
    whose they are is a guess.
    """

    source: str
    words: tuple[str, ...] | None = None
    files: Files | None = None
    is_known: bool = True


class Xid(NamedTuple):
    """An error the driver reported: number, uuid of the GPU, its instance if it names one."""

    uuid: str | None
    xid: int
    instance: int | None = None


class Mark:
    """Where the helper is right now, in memory it shares with the sampler: two bytes written
    before each call (number of the GPU, number of the function), so that the sampler can name the
    call that never came back."""

    def __init__(self, shared: Shared | None = None) -> None:
        self.shared: Shared = bytearray(2) if shared is None else shared
        self.set(None)

    def set(self, gpu: int | None) -> None:
        """From now on this GPU is asked; None: the driver as a whole."""
        self.shared[0] = 0 if gpu is None else min(gpu + 1, 255)
        self.shared[1] = 0

    @staticmethod
    def read(shared: Shared) -> tuple[int | None, int]:
        """(number of the GPU or None, number of the function). Memory nobody has written to yet
        names neither."""
        return shared[0] - 1 if shared[0] else None, shared[1]


def row_tail(identity: Identity, values: dict[str, Value]) -> list[Value]:
    """A row of table ``gpu`` behind its clocks."""
    head = [identity.gpu, identity.mig, identity.uuid, identity.parent_uuid]
    return [*head, *map(values.get, VALUE_COLUMNS)]
