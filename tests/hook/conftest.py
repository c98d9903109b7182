"""Fixtures of the hook's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.scripts import Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with the hook attached."""
    return Job(tmp_path)
