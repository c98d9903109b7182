"""What stores and s5cmd say, and where objects are."""

import pytest

from slurm_io.errors import UsageError
from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.s3_environment import program_environment
from slurm_io.staging.stage.s3_place import S3Place, bare_etag
from slurm_io.staging.stage.s3_text import fault_of
from slurm_io.staging.stage.s5cmd_text import Said, copy_line, meaning, quoted


@pytest.mark.parametrize(
    ("code", "status", "whose", "word"),
    [
        ("NoSuchKey", 404, "source", "no such object"),
        ("404", 404, "source", "no such object"),
        ("PreconditionFailed", 412, "source", "changed"),
        ("403", 403, "source", "credentials"),
        ("ExpiredToken", 400, "source", "expired"),
        ("SlowDown", 503, "link", "slower"),
        ("InternalError", 500, "link", "fails"),
        ("Unheard", 418, "source", "refuses"),
        ("None", None, "link", "fails"),
    ],
)
def test_faults(code: str, status: int | None, whose: str, word: str) -> None:
    found, text = fault_of(code, status)
    assert found == whose and word in text


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        ("NoSuchKey: The specified key does not exist. status code: 404, request id: x", "source"),
        ("given object s3://b/k not found", "source"),
        ("Forbidden: Forbidden status code: 403, request id: x", "source"),
        ("NoCredentialProviders: no valid providers in chain. Deprecated.", "source"),
        ("write /proc/7/fd/9/.slurm_io-s5cmd-x/0: no space left on device", "target"),
        ("mkdir /proc/x: no such file or directory", "target"),
        ("RequestError: send request failed caused by: dial tcp: connection refused", "link"),
        ("SlowDown: Please reduce your request rate. status code: 503, request id: x", "link"),
    ],
)
def test_errors_of_s5cmd(error: str, whose: str) -> None:
    assert meaning(error)[0] == whose


def test_lines_of_s5cmd() -> None:
    said = Said()
    said.take(
        b'{"operation":"cp","success":true,"source":"s3://b/a","destination":"/r/1",'
        b'"object":{"type":"file","size":7}}\n'
        b'{"operation":"cp","command":"cp s3://b/x /r/2","error":"NoSuchKey: status code: 404"}\n'
        b'ERROR not JSON\n[]\n{"key":"s3://b/a","etag":"\\"e1\\"","size":7,"last_modified":"t"}\n'
    )
    assert said.copied == {"/r/1": 7}
    assert said.error_of("/r/2") and said.error_of("/r/1") is None
    assert said.heads["s3://b/a"].etag == "e1"


def test_a_name_is_one_word_of_a_line() -> None:
    assert quoted("a'b c") == "'a'\"'\"'b c'"
    assert copy_line("s3://b/a; rm x", "/r/1", "v'1").count(" ") == 7


def test_places() -> None:
    place = S3Place.of("s3://bucket/x/y/")
    assert place.key(FileEntry("d/a", 1)) == "x/y/d/a"
    assert S3Place.of("s3://bucket").key(FileEntry("d/a", 1)) == "d/a"
    assert place.key(FileEntry("\udcff", 1)) is None
    for wrong in ("", "s3:/b", "s3://", "s3://B", "https://b/x", "-s3://b"):
        with pytest.raises(UsageError):
            S3Place.of(wrong)


@pytest.mark.parametrize("etag", ['"e"', "e", 'W/"e"'])
def test_etags_without_dress(etag: str) -> None:
    assert bare_etag(etag) == "e"


def test_the_environment_of_programs() -> None:
    ours = {"AWS_PROFILE": "p", "AWS_ENDPOINT_URL": "http://x", "HOME": "/h", "SECRET": "s"}
    given = program_environment(ours)
    assert given["S3_ENDPOINT_URL"] == "http://x" and given["AWS_PROFILE"] == "p"
    assert "SECRET" not in given
    ignored = program_environment(ours | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"})
    assert "S3_ENDPOINT_URL" not in ignored
