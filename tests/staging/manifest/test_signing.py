"""Signatures: what is vouched for, and each way in which it is not."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest import signing
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.manifest.signing import generate_key, public_keys, sign, verify_signature
from tests.staging.manifest.made import manifest, numbered

DIGEST = "xxh3-128:" + "f" * 32


@pytest.fixture
def key(tmp_path: Path) -> str:
    generate_key(str(tmp_path / "key"))
    return str(tmp_path / "key")


def answer(found: Manifest, *keys: str) -> str:
    return verify_signature(found, public_keys(keys)).state


def test_signed_is_good_and_unsigned_is_missing(key: str) -> None:
    signed = sign(numbered(3), key)
    assert answer(signed, key + ".pub") == "good"
    assert answer(sign(signed, key), key + ".pub") == "good"  # again
    assert answer(numbered(3), key + ".pub") == "missing"


def _entry(found: Manifest, **change: object) -> Manifest:
    first, *rest = found.files
    return Manifest(found.header, [replace(first, **change), *rest])  # type: ignore[arg-type]


def _renamed_with_new_id(found: Manifest) -> Manifest:
    other = _entry(found, digest=DIGEST)
    header = replace(found.header, content_id=content_id_of(other.files))
    return Manifest(header, other.files)


@pytest.mark.parametrize(
    ("tamper", "state"),
    [
        (lambda m: _entry(m, digest=DIGEST), "altered entry"),
        (lambda m: _entry(m, size_bytes=9), "altered entry"),
        (lambda m: _entry(m, path="another"), "altered entry"),
        (lambda m: Manifest(m.header, m.files[1:]), "altered entry"),
        (_renamed_with_new_id, "altered header"),
        (lambda m: _entry(m, role="index"), "altered header"),
        (lambda m: _entry(m, ends=DIGEST), "altered header"),
        (lambda m: _entry(m, etag="x"), "altered header"),
        (lambda m: Manifest(replace(m.header, dataset="other"), m.files), "altered header"),
        (lambda m: Manifest(replace(m.header, notes=("x",)), m.files), "altered header"),
        (lambda m: Manifest(replace(m.header, missing_count=1), m.files), "altered header"),
    ],
)
def test_each_alteration_has_its_own_answer(
    key: str, tamper: Callable[[Manifest], Manifest], state: str
) -> None:
    assert answer(tamper(sign(numbered(3), key)), key + ".pub") == state


def test_another_key_never_vouches(key: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    generate_key(other)
    signed = sign(numbered(3), key)
    found = verify_signature(signed, public_keys([other + ".pub"]))
    assert found.state == "unknown key" and "not one of the trusted keys" in found.text
    assert answer(signed, other + ".pub", key + ".pub") == "good"
    # A forger signs himself and puts the trusted key's name on it.
    forged = sign(numbered(2), other).header.signature or ""
    trusted_id = public_keys([key + ".pub"])[0].key_id
    renamed = f"ed25519:{trusted_id}:{forged.split(':')[2]}"
    header = replace(numbered(2).header, signature=renamed)
    assert answer(Manifest(header, numbered(2).files), key + ".pub") == "altered header"


def test_folder_of_trusted_keys(key: str, tmp_path: Path) -> None:
    folder = tmp_path / "trusted"
    folder.mkdir()
    (folder / "README").write_text("not a key")
    with pytest.raises(UsageError, match="holds no public key"):
        answer(sign(numbered(1), key), str(folder))
    (folder / "site.pub").write_bytes(Path(key + ".pub").read_bytes())
    assert answer(sign(numbered(1), key), str(folder)) == "good"


def test_key_files_are_made_safely(key: str) -> None:
    assert stat.S_IMODE(Path(key).stat().st_mode) == 0o600
    before = Path(key).read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        generate_key(key)
    Path(key + ".pub").unlink()
    with pytest.raises(UsageError, match="is there already"):
        generate_key(key)
    assert Path(key).read_bytes() == before


def test_bad_keys_say_what_is_wrong(key: str, tmp_path: Path) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (tmp_path / "ec").write_bytes(
        curve.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (tmp_path / "ec.pub").write_bytes(
        curve.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "junk").write_bytes(b"\0junk")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    for name in ("ec", "junk", "large"):
        (tmp_path / name).chmod(0o600)
    for name, reason in [
        ("ec", "not an ed25519 key"), ("junk", "not a private key"), ("large", "not a key file"),
        ("absent", "cannot be read"), ("key.pub", "others can read"), ("", "not a key file"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=reason):
            sign(numbered(1), str(tmp_path / name))
    for name, reason in [
        ("ec.pub", "not an ed25519 key"), ("junk", "not a public key"), ("key", "private key"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=reason):
            public_keys([str(tmp_path / name)])


def test_incomplete_or_inconsistent_manifests_are_not_signed(key: str) -> None:
    with pytest.raises(ManifestError, match="misses 2 path"):
        sign(manifest([FileEntry("a", 1)], missing_count=2), key)
    with pytest.raises(ManifestError, match="content id"):
        sign(manifest([FileEntry("a", 1)], content_id="c1-" + "0" * 32), key)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ManifestError, match="pip install cryptography"):
        generate_key(str(tmp_path / "k"))


def test_only_cryptographic_digests_stop_forgers() -> None:
    assert signing.is_tamper_proof(manifest(algorithm="blake3").header)
    assert not signing.is_tamper_proof(manifest(algorithm="xxh3-128").header)
