"""Who vouches for a manifest: ed25519 over its header and all its entries.

Signed are these bytes::

    slurm_io manifest signature 1\n
    HEADER \n        canonical JSON (sorted keys, no spaces, ASCII) of the header without signature
    ENTRIES          hex BLAKE2b-256 of every entry's canonical JSON, each ended by \n

The header holds the content id, so a changed path, size or digest shows as a wrong content id; the
entries' hash covers what the id does not (roles, ends, chunks, S3 pins). A signature is written
``ed25519:KEYID:HEX``; KEYID is the first 16 hex digits of the SHA-256 of the raw public key.

`cryptography` (the ``sign`` extra) is imported when a key is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.algorithms import TAMPER_PROOF
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.manifest.rows import canonical_json, entry_row, header_row

_CONTEXT = b"slurm_io manifest signature 1\n"
_MAX_KEY_BYTES = 16 << 10
_KEY_SUFFIXES = (".pem", ".pub")
State = Literal["good", "missing", "unknown key", "altered entry", "altered header"]


@dataclass(frozen=True)
class PublicKey:
    """A key that may vouch. `key` is cryptography's object."""

    key_id: str
    source: str
    key: Any


@dataclass(frozen=True)
class SignatureAnswer:
    """What verifying found; `text` is one line for people."""

    state: State
    text: str
    key_id: str | None = None


def generate_key(path: str) -> str:
    """Make a key pair: `path` (private, 0600) and `path`.pub; the key id.

    Raises UsageError when one of them exists already, ManifestError when they cannot be written.
    """
    serialization = _serialization()
    private = _ed25519().Ed25519PrivateKey.generate()
    public = private.public_key()
    spki = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    if os.path.lexists(path + ".pub"):
        raise UsageError(f"{printable(path + '.pub')} is there already; give another name")
    _create(path, pem, 0o600)
    _create(path + ".pub", public.public_bytes(*spki), 0o644)
    return key_id_of(public)


def sign(manifest: Manifest, key_path: str) -> Manifest:
    """The same manifest with a signature by the private key in a PEM file.

    Raises UsageError for a key others can read or that is no ed25519 key; ManifestError for a
    manifest that is incomplete or whose content id is not that of its files.
    """
    header = manifest.header
    if header.missing_count:
        raise ManifestError(
            f"the manifest misses {header.missing_count} path(s) of its folder: build it again"
        )
    if content_id_of(manifest.files) != header.content_id:
        raise ManifestError("the manifest's content id is not that of its files: build it again")
    private = _private_key(key_path)
    signature = private.sign(signed_bytes(header, manifest.files)).hex()
    key_id = key_id_of(private.public_key())
    return replace(manifest, header=replace(header, signature=f"ed25519:{key_id}:{signature}"))


def verify_signature(manifest: Manifest, keys: Sequence[PublicKey]) -> SignatureAnswer:
    """Whether one of `keys` vouches for this very manifest.

    The manifest is read with ``check_id=False``: the content id is recomputed here.
    """
    header = manifest.header
    if header.signature is None:
        return SignatureAnswer("missing", "the manifest is not signed")
    _, key_id, digits = header.signature.split(":")
    key = next((key for key in keys if key.key_id == key_id), None)
    if key is None:
        known = ", ".join(sorted(each.key_id for each in keys)) or "none"
        text = f"signed by key {key_id}, which is not one of the trusted keys ({known})"
        return SignatureAnswer("unknown key", text, key_id)
    if content_id_of(manifest.files) != header.content_id:
        text = "an entry was altered: the files do not make the header's content id"
        return SignatureAnswer("altered entry", text, key_id)
    if not _is_good(key, bytes.fromhex(digits), signed_bytes(header, manifest.files)):
        text = (
            "the header (or a role, chunk, end digest or S3 pin of an entry) was altered after "
            f"key {key_id} signed it"
        )
        return SignatureAnswer("altered header", text, key_id)
    return SignatureAnswer("good", f"signed by key {key_id} ({printable(key.source)})", key_id)


def signed_bytes(header: Header, files: Iterable[FileEntry]) -> bytes:
    """What a signature is over."""
    entries = hashlib.blake2b(digest_size=32)
    for entry in files:
        entries.update(canonical_json(entry_row(entry)).encode() + b"\n")
    row = canonical_json(header_row(header, with_signature=False)).encode()
    return b"%b%b\n%b" % (_CONTEXT, row, entries.hexdigest().encode())


def is_tamper_proof(header: Header) -> bool:
    """Whether nobody can make another file with the digest of one that is signed for."""
    return header.algorithm in TAMPER_PROOF


def public_keys(paths: Iterable[str]) -> list[PublicKey]:
    """Public keys of PEM files, and of folders (their ``*.pem`` and ``*.pub``).

    Raises UsageError naming the file that holds no ed25519 public key.
    """
    keys = []
    for path in paths:
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name.endswith(_KEY_SUFFIXES))
            if not names:
                endings = " or ".join(_KEY_SUFFIXES)
                raise UsageError(f"{printable(path)}: holds no public key ({endings})")
            keys += [_public_key(os.path.join(path, name)) for name in names]
        else:
            keys.append(_public_key(path))
    return keys


def key_id_of(public_key: Any) -> str:
    """16 hex digits that name a public key."""
    serialization = _serialization()
    raw = public_key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def _is_good(key: PublicKey, signature: bytes, data: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _public_key(path: str) -> PublicKey:
    data = _read_key(path)
    if b"PRIVATE KEY" in data:
        raise UsageError(f"{printable(path)}: is a private key; give the public one (.pub)")
    try:
        key = _serialization().load_pem_public_key(data)
    except (ValueError, TypeError, _unsupported()) as error:
        raise UsageError(f"{printable(path)}: is not a public key in PEM form") from error
    if not isinstance(key, _ed25519().Ed25519PublicKey):
        raise UsageError(f"{printable(path)}: is not an ed25519 key; use sign --generate-key")
    return PublicKey(key_id_of(key), path, key)


def _private_key(path: str) -> Any:
    data = _read_key(path, is_private=True)
    try:
        key = _serialization().load_pem_private_key(data, password=None)
    except (ValueError, TypeError, _unsupported()) as error:
        raise UsageError(
            f"{printable(path)}: is not a private key in PEM form without password"
        ) from error
    if not isinstance(key, _ed25519().Ed25519PrivateKey):
        raise UsageError(f"{printable(path)}: is not an ed25519 key; use sign --generate-key")
    return key


def _read_key(path: str, is_private: bool = False) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{printable(path)}: cannot be read ({reason})") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_KEY_BYTES:
            raise UsageError(f"{printable(path)}: is not a key file")
        if is_private and stat.S_IMODE(found.st_mode) & 0o077:
            raise UsageError(f"{printable(path)}: others can read this private key; chmod 600 it")
        return os.pread(fd, _MAX_KEY_BYTES, 0)
    finally:
        os.close(fd)


def _create(path: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise UsageError(f"{printable(path)} is there already; give another name") from None
    except OSError as error:
        with contextlib.suppress(OSError):  # half a key would stand in the way of the next try
            os.unlink(path)
        raise ManifestError(f"{printable(path)}: cannot be written ({error.strerror})") from error


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise _missing() from None
    return serialization


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise _missing() from None
    return ed25519


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _missing() -> ManifestError:
    return ManifestError("signatures need a package that is missing: pip install cryptography")
