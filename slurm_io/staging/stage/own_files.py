"""Our own files inside a dataset's folder that no version has."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slurm_io.staging.manifest.paths import encode_path


def inside(path: str, manifest: str) -> Iterator[bytes]:
    """The manifest's relative path, where it lies inside the dataset."""
    relative = os.path.relpath(os.path.realpath(manifest), os.path.realpath(path))
    if not relative.startswith("../"):
        yield encode_path(relative)
