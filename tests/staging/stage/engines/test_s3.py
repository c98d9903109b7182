"""Both engines for S3 against a real store: what they have in common."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import Engine, FetchOptions
from slurm_io.staging.stage.engines.boto import Boto
from slurm_io.staging.stage.engines.s5cmd import S5cmd
from slurm_io.staging.stage.model import Fetched, SourceSpec
from tests.labs.s3_server import SECRET
from tests.staging.stage.peers import batch, content
from tests.staging.stage.stores import Bucket, denying_store

NAMES = [
    "plain",
    "d/e/deep",
    "with blank",
    "star*[x]?{a,b}",
    "ä&+%20#=;@",
    "q'uo\"te\\",
    "$HOME `x`",
]
LARGE = os.urandom(9_000_000)

both = pytest.mark.parametrize("kind", [Boto, S5cmd])


def fetch(
    kind: type[Engine],
    source: SourceSpec,
    entries: list[FileEntry],
    room: Path,
    options: FetchOptions | None = None,
) -> Fetched:
    assert kind.missing() is None
    engine = kind(source)
    answer = engine.fetch(batch(entries), os.fspath(room), options or FetchOptions())
    engine.close()
    named = [*answer.done, *(failure.path for failure in answer.failures)]
    assert sorted(named) == sorted(entry.path for entry in entries), "each file once"
    return answer


def faults(answer: Fetched) -> dict[str, str]:
    return {failure.path: failure.whose for failure in answer.failures}


@both
def test_objects_arrive(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    files = {name: name.encode() * 3 for name in NAMES} | {"empty": b"", "large": LARGE}
    moved: list[int] = []
    entries = bucket.fill(files)
    answer = fetch(kind, bucket.source, entries, room, FetchOptions(moved=moved.append))
    assert answer.failures == ()
    assert {name: content(room, name.encode()) for name in files} == files
    assert sum(moved) == answer.bytes_moved == sum(map(len, files.values()))
    assert not [path for path in room.rglob("*") if path.name.startswith(".")]


@both
def test_an_object_that_is_gone(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    entries = [bucket.put("here", b"x"), FileEntry("gone", 1), FileEntry("bad\udcff", 1)]
    answer = fetch(kind, bucket.source, entries, room)
    assert answer.done == ("here",)
    assert faults(answer) == {"gone": "source", "bad\udcff": "source"}


@both
def test_a_replaced_object_is_refused(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    """Same name and length, other bytes."""
    old = bucket.put("a", b"old")
    bucket.put("a", b"new")
    answer = fetch(kind, bucket.source, [old], room)
    assert faults(answer) == {"a": "source"}
    assert "changed" in answer.failures[0].text
    assert content(room, b"a") is None


@both
def test_a_kept_version_is_brought(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    bucket.keep_versions()
    old = bucket.put("a", b"old")
    bucket.put("a", b"new")
    assert fetch(kind, bucket.source, [replace(old, etag=None)], room).done == ("a",)
    assert content(room, b"a") == b"old"


@both
def test_an_object_of_another_length(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    entry = replace(bucket.put("a", b"12345"), size_bytes=7, etag=None)
    answer = fetch(kind, bucket.source, [entry], room)
    assert faults(answer) == {"a": "source"}
    assert "5 bytes, the manifest says 7" in answer.failures[0].text


@both
def test_a_size_nobody_knows(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    entry = replace(bucket.put("a", b"12345"), size_bytes=None)
    assert fetch(kind, bucket.source, [entry], room).done == ("a",)
    assert content(room, b"a") == b"12345"


@both
def test_a_bucket_that_is_not_there(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    nowhere = SourceSpec("s3", "s3://no-such-bucket/x", "nowhere")
    problem = kind(nowhere).problem()
    assert problem is not None and "no-such-bucket" in problem
    assert faults(fetch(kind, nowhere, [FileEntry("a", 1)], room)) == {"a": "source"}
    assert kind(bucket.source).problem() is None


@both
@pytest.mark.parametrize(
    "where", ["--endpoint-url=x", "/etc", "s3://", "s3://a/../b\nrm *", "gs://b"]
)
def test_where_must_be_a_bucket(where: str, kind: type[Engine], bucket: Bucket) -> None:
    engine = kind(SourceSpec("s3", where, "x"))
    problem = engine.problem()
    if where.startswith("s3://a"):
        assert problem is not None, "there is no such bucket, and nothing else happens"
    else:
        assert problem is not None and "not of the form" in problem


@both
def test_nobody_there_is_a_broken_link(
    kind: type[Engine], room: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setattr("slurm_io.staging.stage.s3_client.TRIES", 1)
    monkeypatch.setattr("slurm_io.staging.stage.s5cmd_program.RETRIES", 0)
    assert faults(fetch(kind, bucket.source, [FileEntry("a", 1)], room)) == {"a": "link"}


@both
def test_without_credentials(
    kind: type[Engine], room: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = bucket.put("a", b"x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", os.fspath(room))
    answer = fetch(kind, bucket.source, [entry], room)
    assert faults(answer) == {"a": "source"}
    assert "no S3 credentials" in answer.failures[0].text


@both
def test_access_denied_speaks_of_credentials(
    kind: type[Engine], room: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with denying_store() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        answer = fetch(kind, bucket.source, [FileEntry("a", 1)], room)
        assert kind(bucket.source).problem() is None, "reading may be allowed all the same"
    assert faults(answer) == {"a": "source"}
    assert "credentials" in answer.failures[0].text


@both
def test_stop_ends_it(kind: type[Engine], bucket: Bucket, room: Path) -> None:
    stop = threading.Event()
    stop.set()
    entries = bucket.fill({"a": b"x", "large": LARGE})
    answer = fetch(kind, bucket.source, entries, room, FetchOptions(stop=stop))
    assert faults(answer) == {"a": "link", "large": "link"}
    assert {failure.text for failure in answer.failures} == {"stopped"}


@both
@pytest.mark.root
def test_no_space_here_is_the_targets_fault(
    kind: type[Engine], bucket: Bucket, small_disk: Path
) -> None:
    entries = bucket.fill({"large": LARGE})
    answer = fetch(kind, bucket.source, entries, small_disk)
    assert faults(answer) == {"large": "target"}
    assert "no space" in answer.failures[0].text.lower()


@both
def test_no_secret_is_shown(
    kind: type[Engine], bucket: Bucket, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in an answer nor on the command line of a child."""
    seen: list[list[str]] = []
    from slurm_io.staging.stage import s5cmd_program

    run_child = s5cmd_program.run_child

    def spy(argv: list[str], *rest: object, **more: object) -> object:
        seen.append(argv)
        return run_child(argv, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(s5cmd_program, "run_child", spy)
    answer = fetch(kind, bucket.source, [bucket.put("a", b"x"), FileEntry("gone", 1)], room)
    assert len(answer.failures) == 1
    assert SECRET not in repr(answer) and SECRET not in repr(seen)
