"""Whatever sources, links, bytes and kills do: ready is said only of a copy that is right."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_io.errors import SlurmIoError
from slurm_io.staging.stage.engines.base import ENGINES
from slurm_io.staging.stage.model import Failure
from tests.labs.fault_kit import fill, flip
from tests.staging.stage.kit import QUICK, Site, path_source
from tests.staging.stage.scripted import NAME, Fault, Scripted

SIZES = {"i.json": 500, "a/1": 300_000, "a/2": 5_000, "b/c/3": 140_000, "b/empty": 0}


def _flip(path: str, file: Path) -> None:
    if file.stat().st_size:
        flip(file, file.stat().st_size // 2)


def _cut(path: str, file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _gone(path: str, file: Path) -> None:
    file.unlink(missing_ok=True)


def _cut_and_said(path: str, file: Path) -> Failure:
    _cut(path, file)
    return Failure(path, "reset", "link")


def _refused(path: str, file: Path) -> Failure:
    return Failure(path, "no such file", "source")


def _full(path: str, file: Path) -> Failure:
    return Failure(path, "No space left on device", "target")


def _raises(path: str, file: Path) -> None:
    raise RuntimeError("a fault of the engine's")


FAULTS: tuple[Fault | None, ...] = (
    None, None, None, _flip, _cut, _gone, _cut_and_said, _refused, _full, _raises,
)  # fmt: skip
Plan = Mapping[tuple[int, str, int], Fault | None]
"""(source, path, how often it was asked before) -> fault."""
PLANS = st.dictionaries(
    st.tuples(st.integers(0, 1), st.sampled_from(sorted(SIZES)), st.integers(0, 3)),
    st.sampled_from(FAULTS),
    max_size=16,
)
BEFORE = st.dictionaries(
    st.sampled_from(sorted(SIZES)), st.sampled_from(["right", "flipped", "cut", "link"]), max_size=5
)


def _scripts(plan: Plan, number: int) -> Callable[[str, int], Fault | None]:
    return lambda path, before: plan.get((number, path, before))


def _lie_there(site: Site, before: Mapping[str, str]) -> None:
    """What somebody left in the target."""
    for path, how in before.items():
        fill(site.target, {path: SIZES[path]})
        file = site.target / path
        if how == "flipped":
            _flip(path, file)
        elif how == "cut":
            _cut(path, file)
        elif how == "link":
            file.unlink()
            file.symlink_to(site.source / path)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, before=BEFORE, sources=st.integers(1, 2))
def test_ready_is_never_said_of_a_wrong_copy(
    plan: Plan, before: Mapping[str, str], sources: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        ENGINES.discover()
        patch.setitem(ENGINES._things, NAME, Scripted)
        Scripted.brought.clear()
        site = Site.made(Path(folder), SIZES)
        places = [site.source, Path(folder) / "other"][:sources]
        fill(Path(folder) / "other", SIZES)
        Scripted.scripts.clear()
        Scripted.scripts |= {os.fspath(p): _scripts(plan, n) for n, p in enumerate(places)}
        _lie_there(site, before)
        try:
            answer = site.stage(
                engine=NAME, sources=tuple(map(path_source, places)), patience=QUICK
            )
        except SlurmIoError:
            assert not site.says_ready()
            return
        assert (answer.state == "ready") == site.says_ready()
        if answer.state == "ready":
            assert site.truth()
        else:
            assert answer.exit_code == 3
            assert answer.failed
        Scripted.scripts.clear()
        healed = site.stage(engine=NAME, sources=(path_source(site.source),))
        assert healed.state == "ready", healed
        assert site.truth()
