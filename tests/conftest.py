"""For all tests: no property test is timed, a loaded machine would fail it."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
