"""Which GPUs a job's processes have, from what the kernel says: nothing here can be forged.

A name says nothing: what counts is the device behind a descriptor, which only the kernel hands out.
A sampler that the Prolog started believes this and the Prolog only. What stands in the environment
of a job is its user's word, by which he could have other users' GPUs recorded into his store.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from slurm_io.gpus.model import Files

_NVIDIA_MAJOR = 195
_DRM_MAJOR = 226
_MOST_DESCRIPTORS = 1024
_MOST_PROCESSES = 64
_DEVICE = re.compile(rb"/(?:.*/)?(?:nvidia(\d{1,3})|renderD(\d{1,3}))", re.DOTALL)
_ALLOWED = re.compile(r"c (\d{1,4}):(\d{1,6}|\*) [rwm]{1,3}", re.ASCII)
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


def open_files(proc_root: Path, pid: int) -> Files:
    """GPUs a process has open, of its first 1024 descriptors; none when it may not be looked at.

    CUDA opens the GPUs it may see, so this says which GPUs a process can use, not that it does.
    """
    nvidia, render = set(), set()
    folder = f"{proc_root}/{pid}/fd".encode()
    try:
        with os.scandir(folder) as entries:  # never the whole list: a hostile one is a million long
            names = [entry.name for entry in itertools.islice(entries, _MOST_DESCRIPTORS)]
    except OSError:
        return Files()
    for name in names:
        link = b"%s/%s" % (folder, name)
        try:
            found = _DEVICE.fullmatch(os.readlink(link))
            if found is None:
                continue
            facts = os.stat(link)
        except OSError:
            continue
        # In a user's own mount namespace anything can be called /dev/nvidia3.
        device = facts.st_rdev if stat.S_ISCHR(facts.st_mode) else 0
        if found[1] is not None and device == os.makedev(_NVIDIA_MAJOR, int(found[1])):
            nvidia.add(int(found[1]))
        elif found[2] is not None and device == os.makedev(_DRM_MAJOR, int(found[2])):
            render.add(int(found[2]))
    return Files(frozenset(nvidia), frozenset(render))


def open_files_of_all(proc_root: Path, pids: Iterable[int]) -> Files:
    """Of the first 64 processes together."""
    found = Files()
    for pid in list(pids)[:_MOST_PROCESSES]:
        found = found.with_all_of(open_files(proc_root, pid))
    return found


def allowed_by(devices_list: str) -> frozenset[int]:
    """NVIDIA device files that a v1 control group's ``devices.list`` allows one by one.

    Empty when it allows everything (``a *:* rwm``): the kernel then does not show the exceptions
    Slurm made. A v2 group's rules are a program that cannot be read.
    """
    entries = [_ALLOWED.fullmatch(line.strip()) for line in devices_list.splitlines()]
    of_nvidia = [found[2] for found in entries if found and int(found[1]) == _NVIDIA_MAJOR]
    if "*" in of_nvidia:
        return frozenset()
    # 254 is nvidia-modeset, 255 nvidiactl.
    return frozenset(int(minor) for minor in of_nvidia if int(minor) < 254)


def sees_all_pids(proc_root: Path) -> bool:
    """Whether our pids are those the driver knows: it counts in the machine's first namespace."""
    try:
        return os.readlink(f"{proc_root}/self/ns/pid") == _FIRST_PID_NAMESPACE
    except OSError:
        return False
