"""``slurm-io dataset manifest …`` and ``dataset list``: what is said, where, and the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_io.commands import main


@dataclass(frozen=True)
class Done:
    """One run of the command line."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["slurm-io", "dataset", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        text = capsys.readouterr()
        return Done(int(ended.value.code or 0), text.out, text.err)

    return call


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "c4"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.tar").write_bytes(b"%d" % n * 1000)
    (folder / "index.json").write_text("{}")
    return folder


def test_build_show_diff(run: Run, dataset: Path) -> None:
    built = run("manifest", "build", "c4", "-o", "m.jsonl", "--token-dtype", "uint16", "--json")
    assert built.code == 0 and not built.err
    facts = json.loads(built.out)
    assert facts["header"]["dataset"] == "c4" and facts["header"]["file_count"] == 4
    assert facts["header"]["tokens"] == {"dtype": "uint16"}
    shown = run("manifest", "show", "m.jsonl", "--files")
    assert facts["header"]["content_id"] in shown.out and "'2.tar'" in shown.out
    assert json.loads(run("manifest", "show", "m.jsonl", "--json").out)["roles"]["index"] == 1
    assert "dataset     c4\n" in run("manifest", "show", "--header", "m.jsonl").out

    assert run("manifest", "diff", "m.jsonl", "m.jsonl").code == 0
    (dataset / "2.tar").write_text("other")
    text = run("manifest", "build", "c4", "-o", "m2", "--form", "parquet")
    assert text.code == 0 and "(parquet)" in text.out
    differ = run("manifest", "diff", "m.jsonl", "m2")
    assert differ.code == 1 and "changed     '2.tar': size 1000 -> 5 bytes" in differ.out
    assert json.loads(run("manifest", "diff", "m.jsonl", "m2", "--json").out)["equal"] is False


def test_problems_go_to_stderr_and_nothing_is_written(run: Run, dataset: Path) -> None:
    os.mkfifo(dataset / "a\npipe")
    (dataset / "link").symlink_to("/etc/passwd")
    failed = run("manifest", "build", "c4", "-o", "m")
    assert failed.code == 3 and not failed.out and not Path("m").exists()
    lines = failed.err.splitlines()
    assert lines[0].startswith(r"'a\npipe': is a named pipe") and lines[1].startswith("'link'")
    assert lines[2].startswith("slurm-io: 'c4': no manifest, 2 path(s)")
    kept = run("manifest", "build", "c4", "-o", "m", "--keep-going")
    assert kept.code == 1 and "INCOMPLETE  2 path(s)" in kept.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("manifest", "build", "c4"),
        ("manifest", "build", "c4", "-o", "m", "--vocabulary", "5"),
        ("manifest", "build", "c4", "-o", "m", "--layout", "{"),
        ("manifest", "build", "c4", "-o", "c4"),
        ("manifest", "sign", "m"),
        ("manifest", "verify-signature", "m"),
        ("manifest", "show"),
    ],
)
def test_usage_errors(run: Run, dataset: Path, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).code == 2


def test_bad_facts_are_refused_before_hashing(run: Run, dataset: Path) -> None:
    for option, value, reason in [
        ("--token-dtype", "a b", "not one of uint8"),
        ("--layout", '{"color":1}', "unknown key 'color'"),
        ("--algorithm", "rot13", "rot13"),
        ("--note", "a\nb", "control character"),
    ]:
        failed = run("manifest", "build", "c4", "-o", "m", option, value)
        assert failed.code == 2 and reason in failed.err and not Path("m.journal").exists()


def test_a_vocabulary_must_fit_the_tokens(run: Run, dataset: Path) -> None:
    tokens = ("--token-dtype", "uint16", "--vocabulary")
    failed = run("manifest", "build", "c4", "-o", "m", *tokens, "65537")
    assert failed.code == 2 and "uint16 ends at 65535" in failed.err
    assert run("manifest", "build", "c4", "-o", "m", *tokens, "65536").code == 0


def test_a_header_is_for_people(run: Run, dataset: Path) -> None:
    facts = ("--token-dtype", "uint16", "--source", "s3://b/c4", "--fstype", "ext4")
    lines = run("manifest", "build", "c4", "-o", "m", *facts).out.splitlines()
    assert "algorithm   xxh3-128" in lines
    assert "sources     s3://b/c4" in lines
    assert "tokens      dtype uint16" in lines


def test_a_device_is_never_replaced(run: Run, dataset: Path) -> None:
    """As root the rename would put a manifest in the place of /dev/null, for everybody."""
    os.mkfifo("pipe")
    for name in ("pipe", "/dev/null"):
        failed = run("manifest", "build", "c4", "-o", name)
        assert failed.code == 3 and "is a device or pipe" in failed.err
        assert not Path(name).is_file() and not Path(f"{name}.journal").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("build", "c4", "-o", ""),
        ("show", ""),
        ("diff", "", "m"),
        ("import", "", "-o", "m"),
        ("sign", "", "--key", "k"),
    ],
)
def test_an_empty_word_is_not_the_current_folder(
    run: Run, dataset: Path, arguments: tuple[str, ...]
) -> None:
    """What ``-o "$UNSET"`` gives."""
    assert run("manifest", *arguments).code == 2


def test_what_is_no_manifest(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"\x1f\x8b")
    for command in (("show", "m"), ("show", "absent"), ("diff", "m", "m")):
        failed = run("manifest", *command)
        assert failed.code == 3 and failed.err.count("\n") == 1


def test_sign_and_verify(run: Run, dataset: Path) -> None:
    run("manifest", "build", "c4", "-o", "m", "--algorithm", "sha256")
    signed = run("manifest", "sign", "m", "--generate-key", "k")
    assert signed.code == 0 and not signed.err
    assert run("manifest", "verify-signature", "m", "--key", "k.pub").code == 0
    text = Path("m").read_text()
    Path("m").write_text(text.replace('"dataset":"c4"', '"dataset":"c5"'))
    altered = run("manifest", "verify-signature", "m", "--key", "k.pub")
    assert altered.code == 1 and altered.out.startswith("altered header")
    Path("m").write_text(text.replace('"size_bytes":1000', '"size_bytes":2000', 1))
    broken = run("manifest", "verify-signature", "m", "--key", "k.pub")
    assert broken.code == 1 and broken.out.startswith("altered entry")
    assert run("manifest", "show", "m").code == 3
    digest = json.loads(text.splitlines()[1])["digest"]
    Path("m").write_text(text.replace(digest, "sha256:" + "0" * 64))
    entry = run("manifest", "verify-signature", "m", "--key", "k.pub", "--json")
    assert entry.code == 1 and json.loads(entry.out)["state"] == "altered entry"
    run("manifest", "build", "c4", "-o", "m2")
    assert run("manifest", "verify-signature", "m2", "--key", "k.pub").out.startswith("missing")
    fast = run("manifest", "sign", "m2", "--key", "k", "-o", "m3")
    assert fast.code == 0 and "not forgery" in fast.err
    assert run("manifest", "verify-signature", "m3", "--key", "k.pub").code == 0
    assert run("manifest", "verify-signature", "m2", "--key", "k.pub").code == 1


def test_list_of_datasets(run: Run, dataset: Path, tmp_path: Path) -> None:
    run("manifest", "build", "c4", "-o", "m")
    content_id = json.loads(Path("m").read_text().splitlines()[0])["content_id"]
    config = tmp_path / "config.toml"
    config.write_text(
        f'[dataset.c4]\nlocal = "{dataset}"\nmanifest = "{tmp_path}/m"\n[dataset.raw]\n'
        f'shared = "/lustre/raw/%u"\n'
    )
    listed = run("list", "--config", "config.toml")
    assert listed.code == 0 and content_id in listed.out and "/lustre/raw/%u" in listed.out
    rows = json.loads(run("list", "--config", "config.toml", "--json").out)
    assert [row["dataset"] for row in rows] == ["c4", "raw"] and rows[0]["file_count"] == 4
    config.write_text(
        config.read_text().replace("[dataset.raw]", 'content_id = "c1-old"\n[dataset.raw]')
    )
    other = run("list", "--config", "config.toml")
    assert other.code == 1 and "another version" in other.out
    Path("m").unlink()
    gone = run("list", "--config", "config.toml", "--json")
    assert gone.code == 1 and "cannot be read" in json.loads(gone.out)[0]["problem"]


def test_no_datasets(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    assert "no datasets" in run("list", "--config", "config.toml").out


def test_nothing_but_the_result_without_a_terminal(run: Run, dataset: Path) -> None:
    assert run("manifest", "build", "c4", "-o", "m").err == ""
