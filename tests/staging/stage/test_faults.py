"""Bad sources, bad links, bad bytes: the end is a proven copy or an honest no."""

import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.stage.model import Failure
from tests.labs.fault_kit import fill, flip
from tests.staging.stage.kit import QUICK, SIZES, Site, path_source
from tests.staging.stage.scripted import NAME, Fault, Scripted, scripted

__all__ = ["scripted"]
BIG = "a/000.tar"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


def _flip(path: str, file: Path) -> None:
    flip(file, 150_000)


def _truncate(path: str, file: Path) -> None:
    os.truncate(file, 140_000)


def _remove(path: str, file: Path) -> None:
    file.unlink()


def _zero(path: str, file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _link(path: str, file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def _hard_link(path: str, file: Path) -> None:
    twin = file.with_name("twin")
    twin.unlink(missing_ok=True)
    os.link(file, twin)


def _longer(path: str, file: Path) -> None:
    with file.open("ab") as out:
        out.write(b"more")


def _no_route(path: str, file: Path) -> Failure:
    file.unlink()
    return Failure(path, "no route", "link")


def _full(path: str, file: Path) -> Failure:
    return Failure(path, "No space left on device", "target")


FAULTS: dict[str, Fault] = {
    "flip": _flip,
    "truncated": _truncate,
    "gone": _remove,
    "zeros": _zero,
    "a link": _link,
    "hard link": _hard_link,
    "longer": _longer,
}


def only(wanted: str, fault: Fault, times: int = 1):  # type: ignore[no-untyped-def]
    """A script: this fault befalls a file when it is brought for the first times."""
    return lambda path, before: fault if path == wanted and before < times else None


@pytest.mark.parametrize("fault", FAULTS)
def test_what_came_wrong_is_noticed_and_fetched_again(
    fault: str, site: Site, scripted: type[Scripted]
) -> None:
    scripted.scripts[os.fspath(site.source)] = only(BIG, FAULTS[fault])
    answer = site.stage(engine=NAME)
    assert answer.state == "ready"
    assert site.truth()
    # What is merely too long is cut: the digests of its chunks say that the rest is right.
    assert scripted.brought.count((os.fspath(site.source), BIG)) == 2 - (fault == "longer")


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"longer"}))
def test_what_comes_wrong_always_is_an_honest_no(
    fault: str, site: Site, scripted: type[Scripted]
) -> None:
    scripted.scripts[os.fspath(site.source)] = only(BIG, FAULTS[fault], 99)
    answer = site.stage(engine=NAME)
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert [failure.path for failure in answer.failed] == [BIG]
    assert not (site.target / BIG).exists()
    assert not site.says_ready()
    assert answer.copied_files == len(SIZES) - 1
    scripted.scripts.clear()
    again = site.stage(engine=NAME)
    assert (again.state, again.copied_files) == ("ready", 1)


def test_only_the_bad_chunk_is_fetched_again(site: Site, scripted: type[Scripted]) -> None:
    scripted.scripts[os.fspath(site.source)] = only(BIG, _flip)
    assert site.stage(engine=NAME).state == "ready"
    assert scripted.ranges == [(BIG, ((131072, 131072),))]


def test_only_the_bad_chunk_of_a_rotten_file_is_fetched(
    site: Site, scripted: type[Scripted]
) -> None:
    site.stage()
    flip(site.target / BIG, 5)
    answer = site.stage(engine=NAME)
    assert (answer.state, answer.repaired_files) == ("ready", 1)
    assert scripted.ranges == [(BIG, ((0, 131072),))]
    assert site.truth()


def test_a_bad_file_at_one_source_comes_from_another(
    site: Site, tmp_path: Path, scripted: type[Scripted]
) -> None:
    other = tmp_path / "other"
    fill(other, SIZES)
    flip(site.source / BIG, 9)
    answer = site.stage(engine=NAME, sources=(path_source(site.source), path_source(other)))
    assert answer.state == "ready"
    assert site.truth()


def test_sources_bring_disjoint_sets(site: Site, tmp_path: Path, scripted: type[Scripted]) -> None:
    other = tmp_path / "other"
    fill(other, SIZES)
    both = threading.Barrier(2, timeout=60)
    scripted.scripts |= {os.fspath(where): _meet(both) for where in (site.source, other)}
    answer = site.stage(engine=NAME, sources=(path_source(site.source), path_source(other)))
    assert answer.state == "ready"
    counts = Counter(path for _, path in scripted.brought)
    assert counts == Counter(SIZES.keys())
    assert set(answer.by_source) == {"source", "other"}
    assert sum(answer.by_source.values()) == sum(SIZES.values())


def _meet(barrier: threading.Barrier):  # type: ignore[no-untyped-def]
    """Each source's first file waits until the other source has one, too."""
    met: list[str] = []

    def script(path: str, before: int) -> None:
        if not met:
            met.append(path)
            barrier.wait()

    return script


def test_one_of_two_sources_dies_midway(
    site: Site, tmp_path: Path, scripted: type[Scripted]
) -> None:
    other = tmp_path / "other"
    fill(other, SIZES)
    served: list[str] = []

    def dies(path: str, before: int) -> Fault | None:
        served.append(path)
        if len(served) <= 4:
            return None
        return lambda path, file: Failure(path, "connection refused", "link")

    scripted.scripts[os.fspath(other)] = dies
    answer = site.stage(engine=NAME, sources=(path_source(site.source), path_source(other)))
    assert answer.state == "ready"
    assert site.truth()


def test_a_source_that_lacks_files_gives_them_to_others(site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other"
    fill(other, {path: size for path, size in SIZES.items() if path.startswith("a/")})
    for path in ("a/000.tar", "a/001.tar"):
        (site.source / path).unlink()
    answer = site.stage(sources=(path_source(site.source), path_source(other)))
    assert answer.state == "ready"
    assert answer.by_source["other"] >= 600_000


def test_a_link_that_never_works_is_given_up(site: Site, scripted: type[Scripted]) -> None:
    scripted.scripts[os.fspath(site.source)] = lambda path, before: _no_route
    answer = site.stage(engine=NAME)
    assert (answer.state, answer.copied_files) == ("failed", 0)
    assert any("was given up" in note and "no route" in note for note in answer.notes)
    assert len(scripted.brought) <= 4 * QUICK.link_tries * 2


def test_a_link_that_comes_back_is_fine(site: Site, scripted: type[Scripted]) -> None:
    scripted.scripts[os.fspath(site.source)] = lambda path, before: None if before else _no_route
    patience = replace(QUICK, link_tries=50)
    assert site.stage(engine=NAME, patience=patience).state == "ready"


def test_the_targets_fault_ends_everything(site: Site, scripted: type[Scripted]) -> None:
    scripted.scripts[os.fspath(site.source)] = lambda path, before: _full
    answer = site.stage(engine=NAME)
    assert answer.state == "failed"
    assert "No space left" in answer.text
    assert len(scripted.brought) <= 8
