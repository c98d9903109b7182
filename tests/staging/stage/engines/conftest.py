"""Places for tests of engines."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.s3_server import S3Server
from tests.staging.stage.stores import Bucket

SMALL_DISK_KIB = 1024


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a tmpfs")
    place = tmp_path / "small"
    place.mkdir()
    options = f"size={SMALL_DISK_KIB}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket of this test's own, which programs and boto3 find by the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket.new(s3_server)
