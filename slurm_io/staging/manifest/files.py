"""Manifests on disk: which form a file has, reading it, and replacing it in one step.

The form is told by the file's first bytes: ``PAR1`` is Parquet, all else must be JSON Lines. The
Parquet reader (and pyarrow) is loaded only when such a file is to be read in full; its header is
read without. ``light=True`` refuses that: the prolog must not load pyarrow.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import stat
from collections.abc import Iterator, Sequence
from typing import IO, Any, Literal

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import jsonl
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import encode_path, printable

PARQUET_MAGIC = b"PAR1"
PARQUET_ABOVE_FILES = 100_000
Form = Literal["jsonl", "parquet"]


def form_of(path: str) -> Form:
    """Which form a manifest's file has, by its first bytes. Raises ManifestError."""
    fd = jsonl.open_regular(path)
    try:
        return "parquet" if os.pread(fd, 4, 0) == PARQUET_MAGIC else "jsonl"
    except OSError as error:
        raise ManifestError(f"{printable(path)}: cannot be read ({error.strerror})") from error
    finally:
        os.close(fd)


def read_header(path: str) -> Header:
    """The header alone, of either form, with the standard library. Raises ManifestError.

    Says nothing of whether the files behind it are whole.
    """
    if form_of(path) == "parquet":
        from slurm_io.staging.manifest.parquet_footer import read_header as read

        return read(path)
    return jsonl.read_header(path)


def open_manifest(path: str, *, light: bool = False, check_id: bool = True) -> Manifest:
    """A whole, checked manifest of either form. Raises ManifestError.

    `light`: standard library only; a Parquet manifest is then refused. `check_id` as in
    :func:`slurm_io.staging.manifest.jsonl.read_manifest`.
    """
    if form_of(path) == "jsonl":
        return jsonl.read_manifest(path, check_id=check_id)
    if light:
        raise ManifestError(
            f"{printable(path)}: is a Parquet manifest, whose files a prolog does not read: verify "
            "the dataset once by hand, which keeps what the prolog needs on the node"
        )
    manifest: Manifest = _parquet().read_manifest(path, check_id=check_id)
    return manifest


def write_manifest(path: str, manifest: Manifest, form: Form | None = None) -> Form:
    """Write or replace a manifest: temporary file, fsync, rename, fsync of the folder.

    The form is `form`, else what the name's suffix says (.jsonl, .parquet), else JSON Lines up to
    100,000 files. Returns the form. Raises ManifestError; then `path` is as it was before.
    """
    form = form or _form_for(path, len(manifest.files))
    with replaced(path) as file:
        if form == "parquet":
            _parquet().write_parquet(file, manifest.header, manifest.files)
        else:
            jsonl.write_jsonl(file, manifest.header, manifest.files)
    return form


def sorted_files(files: Sequence[FileEntry]) -> list[FileEntry]:
    """Files in the order a manifest has them."""
    return sorted(files, key=lambda entry: encode_path(entry.path))


@contextlib.contextmanager
def replaced(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes `path`'s place, whole and durable, when the block ends well."""
    folder, name = os.path.split(path)
    refuse_devices(path)
    try:
        folder_fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ManifestError(f"{printable(path)}: cannot be written ({error.strerror})") from error
    temporary = f".slurm_io.{os.getpid()}.{os.urandom(4).hex()}.tmp"  # a build leaves such out
    try:
        yield from _written(folder_fd, temporary, name)
    except OSError as error:
        raise ManifestError(f"{printable(path)}: cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder_fd)
        os.close(folder_fd)


def refuse_devices(path: str) -> None:
    """A rename would put a file in the place of /dev/null, for everybody. Raises ManifestError."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    is_file = stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)
    if not is_file or os.path.realpath(os.path.dirname(path)) == "/dev":
        raise ManifestError(f"{printable(path)}: is a device or pipe; give the name of a file")


def _written(folder_fd: int, temporary: str, name: str) -> Iterator[IO[bytes]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder_fd), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    os.fsync(folder_fd)


def _form_for(path: str, file_count: int) -> Form:
    if path.endswith(".jsonl"):
        return "jsonl"
    if path.endswith(".parquet"):
        return "parquet"
    return "parquet" if file_count > PARQUET_ABOVE_FILES else "jsonl"


def _parquet() -> Any:
    # By name, so that the prolog's path has no import of pyarrow even where nobody calls it.
    return importlib.import_module("slurm_io.staging.manifest.parquet")
