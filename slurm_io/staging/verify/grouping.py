"""The files of a dataset by folder, in the order in which a verify goes through them.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from slurm_io.staging.manifest.paths import decode_path, printable


def group(paths: Iterable[bytes]) -> dict[bytes, tuple[list[int], set[bytes]]]:
    """Folder -> (indices of its files, names of its subfolders that hold files), parents first.

    `paths` are relative; a path that is absolute, empty or has an empty, ``.`` or ``..`` component
    raises ValueError.
    """
    folders: dict[bytes, tuple[list[int], set[bytes]]] = {b"": ([], set())}
    for index, path in enumerate(paths):
        folder, _, name = path.rpartition(b"/")
        if folder not in folders:
            _add_parents(folders, folder)
        if not is_component(name) or path[:1] == b"/":
            raise ValueError(f"{printable(decode_path(path))} is no path below a dataset's folder")
        folders[folder][0].append(index)
    return dict(sorted(folders.items(), key=lambda item: item[0].split(b"/")))


def is_component(name: bytes) -> bool:
    """Whether this is one plain component of a path."""
    return bool(name) and name not in (b".", b"..") and b"\0" not in name and b"/" not in name


def _add_parents(folders: dict[bytes, tuple[list[int], set[bytes]]], folder: bytes) -> None:
    parts = folder.split(b"/")
    if not all(map(is_component, parts)):
        raise ValueError(f"{printable(decode_path(folder))} is no path below a dataset's folder")
    paths = [b"/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    for parent, child in pairwise(paths):
        folders.setdefault(child, ([], set()))
        folders[parent][1].add(child.rpartition(b"/")[2])
