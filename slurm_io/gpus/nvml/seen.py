"""Which NVIDIA GPUs there are, by /proc/driver/nvidia: looking there touches none of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from slurm_io.gpus.model import Identity
from slurm_io.host.read import read_optional_text

MOST_GPUS = 64
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")


def seen_by_driver(proc_root: Path) -> list[Identity]:
    """GPUs by /proc/driver/nvidia, without touching any; in the order of nvidia-smi."""
    folder = f"{proc_root}/driver/nvidia/gpus"
    try:
        names = [name for name in os.listdir(folder) if _ADDRESS.fullmatch(name)]
    except OSError:
        return []
    names.sort(key=lambda name: [int(part, 16) for part in re.split("[:.]", name)])
    return [
        parse_information(read_optional_text(f"{folder}/{name}/information") or "", name, gpu)
        for gpu, name in enumerate(names[:MOST_GPUS])
    ]


def parse_information(text: str, bus: str, gpu: int) -> Identity:
    """One GPU's ``information``: lines ``Label: value``."""
    fields = {
        label.strip(): value.strip()
        for label, separator, value in (line.partition(":") for line in text.splitlines())
        if separator
    }
    minor, uuid = fields.get("Device Minor", ""), fields.get("GPU UUID", "")
    return Identity(
        gpu=gpu,
        uuid=uuid if uuid and "?" not in uuid else None,  # not known before the first use
        minor=int(minor) if minor.isascii() and minor.isdecimal() else None,
        bus=bus,
        name=fields.get("Model", ""),
        vendor="nvidia",
    )
