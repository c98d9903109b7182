"""The files a foreign description names, collected: one entry a path, digests by our names."""

from __future__ import annotations

import re
from dataclasses import replace

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.algorithms import ALGORITHMS, check_digits
from slurm_io.staging.manifest.foreign_source import shown
from slurm_io.staging.manifest.hashing import digest_bytes
from slurm_io.staging.manifest.model import FileEntry, Role
from slurm_io.staging.manifest.paths import Ascending, checked_path, encode_path
from slurm_io.staging.manifest.roles import role_of

MAX_ENTRIES = 5_000_000
MAX_INT = 2**63 - 1
#: Of several digests of one file, the first of these stands in the manifest as `digest`.
PREFERRED = (
    "xxh3-128",
    "blake3",
    "sha256",
    "sha512",
    "sha384",
    "sha224",
    "blake2b",
    "sha1",
    "xxh64",
    "xxh3-64",
    "md5",
    "crc64nvme",
    "xxh32",
    "crc32c",
    "crc32",
)
_ALIASES = {
    "xxh3": "xxh3-64",
    "xxh364": "xxh3-64",
    "xxh128": "xxh3-128",
    "xxh3128": "xxh3-128",
    "xxhash32": "xxh32",
    "xxhash64": "xxh64",
    "b3": "blake3",
    "sha": "sha1",
    "sha2224": "sha224",  # openssl's SHA2-224
    "sha2256": "sha256",
    "sha2384": "sha384",
    "sha2512": "sha512",
}
_NOT_WORD = re.compile(r"[^a-z0-9]")


def algorithm_named(foreign: str) -> str | None:
    """Our name of an algorithm (``XXH128``, ``sha-256``, ``xxh3_64``), None when unknown."""
    if "/" in foreign:
        return None  # SHA512/256 is not a shorter SHA512
    bare = _NOT_WORD.sub("", foreign.lower())
    ours = _ALIASES.get(bare, bare)
    return ours if ours in ALGORITHMS else None


def digest_of(algorithm: str, digits: str, where: str) -> str:
    """``ALGORITHM:HEX`` in lower case. Raises ManifestError naming `where`."""
    try:
        check_digits(algorithm, digits.lower())
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from None
    return f"{algorithm}:{digits.lower()}"


class EntryList:
    """Collects entries, checks their paths, and refuses a path that comes twice.

    `prefix` is cut off every path; one that does not start with it is an error.
    """

    def __init__(self, prefix: str = "") -> None:
        self._entries: dict[str, FileEntry] = {}
        self._seen_at: dict[str, str] = {}
        self._prefix = prefix

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path.removeprefix(self._prefix) in self._entries

    def add(
        self,
        path: str,
        where: str,
        *,
        size_bytes: int | None = None,
        digests: tuple[str, ...] = (),
        role: Role | None = None,
        etag: str | None = None,
        version_id: str | None = None,
        merge: bool = False,
    ) -> None:
        """Add one file. `where` (file and line) goes into messages; `role` None: by its name.

        `merge`: the same path under another algorithm adds a digest; the same algorithm twice is
        an error all the same.
        """
        path = self._checked(path, where)
        before = self._entries.get(path)
        if before is not None:
            if not merge:
                raise ManifestError(
                    f"{where}: {shown(path)} stands twice (first: {self._seen_at[path]})"
                )
            digests = self._merged(before, digests, where)
            size_bytes = before.size_bytes if size_bytes is None else size_bytes
        elif len(self._entries) >= MAX_ENTRIES:
            raise ManifestError(f"{where}: over {MAX_ENTRIES} files; import in parts")
        primary, others = _in_order(digests)
        self._seen_at.setdefault(path, where)
        self._entries[path] = FileEntry(
            path, size_bytes, primary, None, (), etag, version_id, role or role_of(path), others
        )

    def add_own(self, path: str, content: bytes, role: Role, where: str) -> None:
        """Add a file of the description itself, read in full: size and digest are known.

        Left out where --prefix cuts it off: then it lies outside the dataset.
        """
        if path.startswith(self._prefix) and path not in self:
            size_bytes = len(content)
            self.add(
                path, where, size_bytes=size_bytes, digests=(digest_bytes(content),), role=role
            )

    def set_size(self, path: str, size_bytes: int, where: str) -> None:
        """Say the size of a file that is already there. Raises ManifestError when it is not."""
        path = self._checked(path, where)
        if path not in self._entries:
            raise ManifestError(f"{where}: {shown(path)} is in no list of digests")
        self._entries[path] = replace(self._entries[path], size_bytes=size_bytes)

    def entries(self, where: str) -> tuple[FileEntry, ...]:
        """All files in a manifest's order. Raises ManifestError when one lies below another."""
        found = sorted(self._entries.values(), key=lambda entry: encode_path(entry.path))
        ascending = Ascending()
        try:
            for entry in found:
                ascending.add(entry.path)
        except ManifestError as error:
            raise ManifestError(f"{where}: {error}") from None
        if not found:
            raise ManifestError(f"{where}: names no files")
        if sum(entry.size_bytes or 0 for entry in found) > MAX_INT:
            raise ManifestError(f"{where}: all sizes together pass 2^63 bytes")
        return tuple(found)

    def _checked(self, path: str, where: str) -> str:
        if not path.startswith(self._prefix):
            raise ManifestError(f"{where}: {shown(path)} does not start with --prefix")
        path = path[len(self._prefix) :]
        try:
            checked_path(path)
        except ManifestError as error:
            raise ManifestError(f"{where}: {error}") from None
        return path

    def _merged(self, before: FileEntry, digests: tuple[str, ...], where: str) -> tuple[str, ...]:
        known = tuple(one for one in (before.digest, *before.digests) if one)
        algorithms = {one.partition(":")[0] for one in known}
        for digest in digests:
            if digest.partition(":")[0] in algorithms:
                raise ManifestError(
                    f"{where}: {shown(before.path)} stands twice "
                    f"(first: {self._seen_at[before.path]})"
                )
        return known + digests


def _in_order(digests: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """(the digest that stands first, the others)."""
    if not digests:
        return None, ()
    ordered = sorted(digests, key=_rank)
    return ordered[0], tuple(ordered[1:])


def _rank(digest: str) -> int:
    name = digest.partition(":")[0]
    return PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
