"""``slurm-io dataset manifest import``: what it prints, writes and ends with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands import cli
from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.files import open_manifest

G02 = Path(__file__).parent.parent / "fixtures/cases/G02"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["dataset", "manifest", "import", *map(str, arguments)])


def sums(tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("a", "b"):
        (copy / name).write_bytes(name.encode())
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}
    path = tmp_path / "SHA256SUMS"
    path.write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return path


def test_a_good_copy(tmp_path: Path) -> None:
    out = tmp_path / "m.jsonl"
    result = run(sums(tmp_path), "-o", out, "--root", tmp_path / "copy", "--hash", "--dataset", "d")
    assert result.exit_code == 0
    assert "from sums" in result.stdout
    manifest = open_manifest(str(out))
    assert (manifest.header.dataset, manifest.header.total_bytes) == ("d", 2)
    assert manifest.header.algorithm == "xxh3-128"
    assert [entry.path for entry in manifest.files] == ["a", "b"]
    assert all(entry.digests[0].startswith("sha256:") for entry in manifest.files)


def test_what_disagrees_is_listed_and_exits_1(tmp_path: Path) -> None:
    out = tmp_path / "m.jsonl"
    source = sums(tmp_path)
    (tmp_path / "copy/a").write_bytes(b"A")
    (tmp_path / "copy/b").unlink()
    arguments = (source, "-o", out, "--root", tmp_path / "copy", "--hash")
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0].startswith("corrupt: 'a': is sha256:")
    assert result.stderr.splitlines()[1] == "missing: 'b': is not in the copy"
    assert len(open_manifest(str(out)).files) == 2  # the source stays the truth
    facts = json.loads(run(*arguments, "--json").stdout)
    assert [(each["kind"], each["path"]) for each in facts["problems"]] == [
        ("corrupt", "a"),
        ("missing", "b"),
    ]
    assert (facts["format"], facts["form"], facts["manifest"]) == ("sums", "jsonl", str(out))
    assert facts["header"]["file_count"] == 2


def test_case_g02_by_the_command(tmp_path: Path) -> None:
    arguments = ("-o", tmp_path / "m.jsonl", "--root", G02 / "files", "--hash", "--json")
    result = run(G02 / "SHA256SUMS", *arguments)
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert [(each["kind"], each["path"]) for each in problems] == [("corrupt", "Full-2.4.0.zip")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--hash",), UsageError),
        (("--format", "nonsense"), UsageError),
        (("--format", "megatron"), ManifestError),
        (("--root", "/nonexistent"), ManifestError),
        (("--dataset", "a\nb"), None),
    ],
)
def test_bad_requests_write_nothing(
    tmp_path: Path, arguments: tuple[str, ...], error: type[Exception] | None
) -> None:
    out = tmp_path / "m.jsonl"
    result = run(sums(tmp_path), "-o", out, *arguments)
    if error is not None:
        assert isinstance(result.exception, error)
        assert not out.exists()
    else:
        assert result.exit_code == 0
        assert "\n" not in open_manifest(str(out)).header.dataset


def test_the_old_manifest_stays_when_the_source_is_bad(tmp_path: Path) -> None:
    out = tmp_path / "m.jsonl"
    out.write_text("old")
    bad = tmp_path / "list.md5"
    bad.write_text("rubbish\n")
    assert run(bad, "-o", out, "--format", "sums").exit_code == 1  # click's own code of a raise
    assert out.read_text() == "old"
