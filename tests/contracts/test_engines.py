"""Every engine keeps the contract of `engines/base.py`, whether it can be used here or not."""

import inspect
import threading
from pathlib import Path
from typing import get_args

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import ENGINES, PREFERRED, Engine, FetchOptions
from slurm_io.staging.stage.model import Batch, SourceKind, SourceSpec

PAGE = Path(__file__).resolve().parents[2] / "docs/staging-engines.md"
NOWHERE = {
    "path": "/no/such/folder",
    "peer": "rsync://stage@127.0.0.1:1/data",
    "s3": "not an address",
}
NONSENSE = (
    "", " ", "nonsense", "\0", "a\nb", "x" * 5000, "\udcff", "/", "/dev/null", "/no/such/\0folder",
    "-oProxyCommand=id", "--server", "127.0.0.1:/etc", "http://[", "file:///etc",
    "rsync://", "rsync://[::1/data", "rsync://stage@127.0.0.1:99999999/data",
    "rsync://sta\0ge@127.0.0.1:1/data", "s3://", "s3:///prefix", "s3://A..B/c", "s3://\udcff/x",
    "s3://bucket\0/x",
)  # fmt: skip
FILES = (FileEntry("a", 1), FileEntry("d/b", 2))
ODD_BATCHES = (
    (),
    (FileEntry("-rf", 0), FileEntry("new\nline", 0), FileEntry("d/\udcff", 0)),
    (FileEntry("unknown size", None), FileEntry("large", 2**63), FileEntry("n" * 255, 1)),
    (FileEntry("/".join(["deep"] * 800), 1), FileEntry("* ? [x] #;", 1)),
)

each_engine = pytest.mark.parametrize("name", sorted(ENGINES.discover()))


def opened(name: str, where: str | None = None) -> Engine:
    """One for a source that is not there."""
    kind = ENGINES.get(name)
    source = NOWHERE[kind.kinds[0]] if where is None else where
    return kind(SourceSpec(kind.kinds[0], source, "nowhere", "secret"))


def fetched(engine: Engine, files: tuple[FileEntry, ...], room: Path) -> None:
    """It answers, for each file once, and has brought none."""
    answer = engine.fetch(Batch(0, files), str(room), FetchOptions(stop=threading.Event()))
    told = [failure.path for failure in answer.failures]
    assert answer.done == () and sorted(told) == sorted(entry.path for entry in files)
    assert all(failure.text and failure.whose for failure in answer.failures)


@each_engine
def test_it_lies_in_the_file_of_its_name_and_says_what_it_is(name: str) -> None:
    engine = ENGINES.get(name)
    module = inspect.getmodule(engine)
    assert module is not None and module.__name__ == f"slurm_io.staging.stage.engines.{name}"
    assert engine.__doc__ and module.__doc__
    assert engine.kinds and set(engine.kinds) <= set(get_args(SourceKind))
    assert engine.batch_files >= 1


@each_engine
def test_it_has_a_row_and_says_what_it_needs(name: str) -> None:
    assert f"| `{name}` |" in PAGE.read_text()
    missing = ENGINES.get(name).missing()
    assert missing is None or (missing.strip() and "\n" not in missing)


@each_engine
def test_a_source_that_is_not_there_is_told_in_one_line(name: str) -> None:
    engine = opened(name)
    problem = engine.problem()
    engine.close()
    assert problem and "\n" not in problem and "secret" not in problem.replace("wrong secret", "")


@each_engine
@pytest.mark.parametrize("where", NONSENSE)
def test_no_nonsense_as_a_source_raises(name: str, where: str, tmp_path: Path) -> None:
    engine = opened(name, where)
    problem = engine.problem()
    assert problem is None or (problem and "\n" not in problem)
    fetched(engine, FILES, tmp_path)
    engine.close()
    assert not any(path.is_file() and path.stat().st_size for path in tmp_path.rglob("*"))


@each_engine
@pytest.mark.parametrize("files", ODD_BATCHES)
def test_every_file_is_in_the_answer(
    name: str, files: tuple[FileEntry, ...], tmp_path: Path
) -> None:
    engine = opened(name)
    fetched(engine, files, tmp_path)
    engine.close()


@each_engine
def test_a_room_that_is_gone_is_told_of_each_file(name: str, tmp_path: Path) -> None:
    engine = opened(name)
    fetched(engine, FILES, tmp_path / "gone")
    engine.close()


@each_engine
def test_it_is_closed_as_often_as_one_likes(name: str) -> None:
    engine = opened(name)
    engine.close()
    engine.close()
    engine.problem()
    engine.close()
    engine.close()


def test_preferred_engines_exist_and_fit() -> None:
    for source_kind, names in PREFERRED.items():
        assert all(source_kind in ENGINES.get(name).kinds for name in names)
