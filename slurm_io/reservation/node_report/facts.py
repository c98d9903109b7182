"""Facts about this node that must be alike on all nodes of a run, its GPUs, its free space.

Each function runs in a child that can be killed: a sick driver can hang whoever reads its files.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from slurm_io.gpus.amd.card import identify
from slurm_io.gpus.amd.driver import amd_folders
from slurm_io.gpus.nvml.seen import MOST_GPUS, seen_by_driver
from slurm_io.host.read import read_optional_text

_MOST_NICS = 64
_IMAGE_KEYS = ("IMAGE_ID", "IMAGE_VERSION", "BUILD_ID", "PRETTY_NAME")
_NVIDIA = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+){1,3})")


def software(image_file: str, root: str = "/") -> dict[str, str | None]:
    """Kernel, GPU driver, python, firmware of RDMA devices, image. None: not there, or not read."""
    return {
        "kernel": os.uname().release,
        "driver": _driver(root),
        "python": platform.python_version(),
        "nic_firmware": _firmware(root),
        "image": _image(image_file, root),
    }


def gpu_names(root: str = "/") -> list[str]:
    """UUIDs as the drivers' files tell them; no GPU is touched and no driver opened."""
    nvidia = seen_by_driver(Path(root, "proc"))
    folders = amd_folders(Path(root, "sys"))[:MOST_GPUS]
    amd = [identify(folder, number) for number, folder in enumerate(folders)]
    return [each.uuid for each in (*nvidia, *amd) if each.uuid is not None]


def free_bytes(path: str) -> int:
    """Of the file system that holds `path`, or will. Raises OSError."""
    there = Path(path)
    while not there.exists() and there != there.parent:
        there = there.parent
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize


def _driver(root: str) -> str | None:
    text = read_optional_text(f"{root}/proc/driver/nvidia/version") or ""
    found = _NVIDIA.search(text)
    if found is not None:
        return f"nvidia {found[1]}"
    amd = (read_optional_text(f"{root}/sys/module/amdgpu/version") or "").strip()
    return f"amdgpu {amd}" if amd else None


def _firmware(root: str) -> str | None:
    """``4x20.39.1002``: how many devices have which firmware, whatever their names."""
    try:
        devices = sorted(Path(root, "sys/class/infiniband").iterdir())[:_MOST_NICS]
    except OSError:
        return None
    versions = [(read_optional_text(device / "fw_ver") or "?").strip() for device in devices]
    kinds = sorted(set(versions))
    return ", ".join(f"{versions.count(kind)}x{kind}" for kind in kinds) or None


def _image(image_file: str, root: str) -> str | None:
    if image_file:
        text = read_optional_text(image_file, 65536) or ""
        return text.strip().partition("\n")[0] or None
    lines = (read_optional_text(f"{root}/etc/os-release", 65536) or "").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    found = [values[key].strip("\"'") for key in _IMAGE_KEYS if values.get(key)]
    return " ".join(found) or None
