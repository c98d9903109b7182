"""A made-up /sys with AMD GPUs in it, as amdgpu lays it out."""

from __future__ import annotations

import struct
from pathlib import Path

GIB = 1 << 30
MI250 = {
    "unique_id": "7d3a5c1e0f2b4a69\n", "product_name": "AMD INSTINCT MI250\n",
    "gpu_busy_percent": "87\n", "mem_busy_percent": "30\n",
    "mem_info_vram_used": f"{48 * GIB}\n", "mem_info_vram_total": f"{64 * GIB}\n",
    "current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n",
    "max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n",
    "hwmon/hwmon4/power1_average": "412000000\n", "hwmon/hwmon4/freq1_input": "1700000000\n",
    "hwmon/hwmon4/freq2_input": "1600000000\n", "hwmon/hwmon4/temp1_label": "edge\n",
    "hwmon/hwmon4/temp1_input": "51000\n", "hwmon/hwmon4/temp2_label": "junction\n",
    "hwmon/hwmon4/temp2_input": "63000\n", "drm/card0/dev": "226:0\n",
}  # fmt: skip


def address(number: int) -> str:
    """PCI address of the n-th card."""
    return f"0000:{0xC1 + number:02x}:00.0"


def make_card(sys_root: Path, number: int = 0, **changes: str | None) -> Path:
    """A card below bus/pci/drivers/amdgpu; `changes` by file name with "/" as "__", None = none."""
    folder = sys_root / "bus/pci/drivers/amdgpu" / address(number)
    files: dict[str, str | None] = dict(MI250)
    files[f"drm/renderD{128 + number}/dev"] = f"226:{128 + number}\n"
    files |= {name.replace("__", "/"): text for name, text in changes.items()}
    for name, text in files.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def v1_3(
    energy: int = 0, throttle: int = 0, hotspot: int = 63, power: int = 412, gfx: int = 87
) -> bytes:
    """gpu_metrics 1.3 as kgd_pp_interface.h lays it out: 120 bytes."""
    return struct.pack(
        "<HBB6H3HHQQ7H7HIHHHHII4HQ4HQ",
        120, 1, 3,
        51, hotspot, 55, 0xFFFF, 0xFFFF, 0xFFFF,  # edge, hotspot, mem, three regulators
        gfx, 30, 0, power,
        energy, 123456789,
        1690, 1000, 1590, 0, 0, 0, 0,  # mean clocks: gfx, soc, uclk, ...
        1700, 1090, 1600, 0, 0, 0, 0,  # clocks now
        0xDEAD, 0xFFFF, 16, 160, 0,  # throttle of the chip, fan, lanes, 0.1 GT/s, padding
        1, 2, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
        99, 750, 800, 900, 0, throttle,
    )  # fmt: skip


def v1_4(energy: int = 0, throttle: int = 0) -> bytes:
    """gpu_metrics 1.4, of MI300: 288 bytes."""
    head = struct.pack("<HBB4H2H4HQQIIHHHH", 288, 1, 4, 71, 60, 50, 690, 97, 55, 0, 0, 0, 0,
                       energy, 5, throttle, 0, 16, 320, 16, 32)  # fmt: skip
    middle = bytes(240 - len(head))
    return head + middle + struct.pack("<8H4H4H4HHHI", 2100, *[0] * 7, *[0] * 12, 1300, 0, 0)


def v1_6(energy: int = 0) -> bytes:
    """gpu_metrics 1.6: 1664 bytes."""
    head = struct.pack("<HBB4H2HQQ7IHH", 1664, 1, 6, 71, 60, 50, 690, 97, 55, energy, 5,
                       *[0] * 7, 16, 320)  # fmt: skip
    body = bytearray(head + bytes(1664 - len(head)))
    struct.pack_into("<H", body, 264, 2100)
    struct.pack_into("<H", body, 304, 1300)
    return bytes(body)
