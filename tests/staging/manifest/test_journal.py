"""The journal of a build: torn lines, damage, other settings, two builds at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.hashing import FileDigest, Identity
from slurm_io.staging.manifest.journal import Journal, line_of

SETTINGS = {"root": [1, 2], "algorithm": "md5", "created_at": "then"}
LATER = SETTINGS | {"created_at": "now"}
DIGESTS = {
    f"p\udcff\n{n}": FileDigest(Identity(1, n, 3, 4, 5), f"md5:{n:032x}", None, ("a", "b"))
    for n in range(5)
}


def fill(path: Path) -> None:
    log = Journal(str(path), SETTINGS)
    for each in DIGESTS.items():
        log.add(line_of([each]))
    log.close(remove=False)


def reopened(path: Path, settings: dict[str, object] = LATER, resume: bool = True) -> Journal:
    log = Journal(str(path), settings, resume)
    log.close(remove=False)
    return log


def test_what_was_added_is_there_again_with_the_first_time_of_start(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    log = reopened(tmp_path / "j")
    assert log.digests == DIGESTS
    assert log.settings == SETTINGS | {"journal": 2}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000))
def test_torn_anywhere_keeps_the_whole_lines_and_goes_on(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    path.unlink(missing_ok=True)
    fill(path)
    os.truncate(path, cut % path.stat().st_size)
    log = Journal(str(path), LATER)
    kept = dict(log.digests)
    assert kept.items() <= DIGESTS.items()
    log.add(line_of([("new", DIGESTS["p\udcff\n0"]), ("b", DIGESTS["p\udcff\n1"])]))
    log.close(remove=False)
    assert reopened(path).digests == {
        **kept,
        "new": DIGESTS["p\udcff\n0"],
        "b": DIGESTS["p\udcff\n1"],
    }


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2000), bit=st.integers(0, 7))
def test_damaged_line_is_as_if_never_written(tmp_path: Path, at: int, bit: int) -> None:
    path = tmp_path / "j"
    path.unlink(missing_ok=True)
    fill(path)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert reopened(path).digests.items() <= DIGESTS.items()


def test_other_settings_begin_anew(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    log = reopened(tmp_path / "j", SETTINGS | {"algorithm": "sha1", "created_at": "now"})
    assert not log.digests and log.settings["created_at"] == "now"
    fill(tmp_path / "j")
    assert not reopened(tmp_path / "j", resume=False).digests


def test_two_builds_of_one_manifest(tmp_path: Path) -> None:
    log = Journal(str(tmp_path / "j"), SETTINGS)
    with pytest.raises(ManifestError, match="another build of this manifest is running"):
        Journal(str(tmp_path / "j"), SETTINGS)
    log.close(remove=True)
    assert not (tmp_path / "j").exists()
    reopened(tmp_path / "j")


def test_what_is_no_journal_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "link").symlink_to("victim")
    os.link(tmp_path / "victim", tmp_path / "hard")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "hard", "pipe", "absent/x"):
        with pytest.raises(ManifestError, match="cannot be written|not a journal of your own"):
            Journal(str(tmp_path / name), SETTINGS)
    assert (tmp_path / "victim").read_text() == "precious"
