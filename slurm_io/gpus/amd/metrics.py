"""amdgpu's ``gpu_metrics``: a binary table, whose layout each revision of the kernel's
kgd_pp_interface.h changes. What is not laid out here is not read.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from slurm_io.gpus.model import Value

_HEADER = struct.Struct("<HBB")  # size of the whole, format revision, content revision
_ENERGY_J = 2.0**-16  # documented from 1.4 on; before, the unit is each chip's own
_LONGEST = 65536

# name -> (offset, struct code). Watts, °C, per cent, MHz, 0.1 GT/s.
_OLDEST = {
    "temperature": (18, "H"), "gfx_activity": (28, "H"), "umc_activity": (30, "H"),
    "power": (34, "H"), "gfxclk": (54, "H"), "uclk": (58, "H"), "throttle": (68, "I"),
    "pcie_width": (74, "B"), "pcie_speed": (75, "B"),
}  # fmt: skip
_OLD = {
    "temperature": (6, "H"), "gfx_activity": (16, "H"), "umc_activity": (18, "H"),
    "power": (22, "H"), "gfxclk": (54, "H"), "uclk": (58, "H"), "throttle": (68, "I"),
    "pcie_width": (74, "H"), "pcie_speed": (76, "H"),
}  # fmt: skip
_NEW = {
    "temperature": (4, "H"), "power": (10, "H"), "gfx_activity": (12, "H"),
    "umc_activity": (14, "H"),
}  # fmt: skip


class _Layout(NamedTuple):
    """`size` None: several are in use, of which only the beginning is read."""

    size: int | None
    fields: dict[str, tuple[int, str]]


def _new(
    size: int | None, energy: int, pcie: int, clocks: tuple[int, int] | None, throttle: int | None
) -> _Layout:
    fields = _NEW | {
        "energy": (energy, "Q"), "pcie_width": (pcie, "H"), "pcie_speed": (pcie + 2, "H"),
    }  # fmt: skip
    if clocks is not None:
        fields |= {"gfxclk": (clocks[0], "H"), "uclk": (clocks[1], "H")}
    if throttle is not None:
        fields |= {"throttle": (throttle, "I")}
    return _Layout(size, fields)


_LAYOUTS = {
    (1, 0): _Layout(80, _OLDEST),
    (1, 1): _Layout(96, _OLD),
    (1, 2): _Layout(104, _OLD),
    (1, 3): _Layout(120, _OLD | {"throttle": (112, "Q")}),
    (1, 4): _new(288, 24, 48, (240, 280), 40),
    (1, 5): _new(328, 56, 80, (280, 320), 72),
    (1, 6): _new(1664, 16, 60, (264, 304), None),
    (1, 7): _new(2208, 24, 68, (296, 336), None),
    (1, 8): _new(None, 24, 68, None, None),
}
_LEAST_SIZE = 344
_GENERATIONS = {25: 1, 50: 2, 80: 3, 160: 4, 320: 5, 640: 6}


class Metrics(NamedTuple):
    """Columns of table gpu (temperature and link included), the energy counter in joules, and why
    nothing could be read ("" when it could)."""

    values: dict[str, Value]
    energy_j: float | None
    trouble: str = ""


def parse_metrics(content: bytes) -> Metrics:
    """Any bytes at all; what the chip does not fill in (all bits set) is left out."""
    if len(content) < _HEADER.size:
        return Metrics({}, None, "gpu_metrics is too short to be a table")
    size, form, revision = _HEADER.unpack_from(content)
    layout = _LAYOUTS.get((form, revision))
    if layout is None:
        return Metrics({}, None, f"gpu_metrics {form}.{revision} is of a layout not known here")
    fits = size == layout.size or (layout.size is None and size >= _LEAST_SIZE)
    if not fits or len(content) < size or size > _LONGEST:
        return Metrics({}, None, f"gpu_metrics {form}.{revision} of {size} bytes is not as known")
    read = {name: _field(content, *place) for name, place in layout.fields.items()}
    energy = read.get("energy")
    return Metrics(_columns(read), None if energy is None else energy * _ENERGY_J)


def pcie_generation(tenths_gts: int | None) -> int | None:
    """1 to 6 of a link speed in 0.1 GT/s."""
    return None if tenths_gts is None else _GENERATIONS.get(tenths_gts)


def _field(content: bytes, offset: int, code: str) -> int | None:
    (value,) = struct.unpack_from(f"<{code}", content, offset)
    is_filled_in = value != (1 << 8 * struct.calcsize(f"<{code}")) - 1
    return int(value) if is_filled_in else None


def _columns(read: dict[str, int | None]) -> dict[str, Value]:
    throttle = read.get("throttle")
    columns: dict[str, Value] = {
        "util_share": _share(read["gfx_activity"]),
        "mem_util_share": _share(read["umc_activity"]),
        "power_w": read["power"],
        "temperature_c": read["temperature"],
        "sm_clock_mhz": read.get("gfxclk"),
        "mem_clock_mhz": read.get("uclk"),
        "throttle_reasons": None if throttle is None else throttle & 2**63 - 1,
        "pcie_width": read["pcie_width"] or None,
        "pcie_gen": pcie_generation(read["pcie_speed"]),
    }
    return {name: value for name, value in columns.items() if value is not None}


def _share(per_cent: int | None) -> float | None:
    """Some revisions count hundredths of a per cent; above 100 the unit is not known."""
    return per_cent / 100 if per_cent is not None and per_cent <= 100 else None
