"""A manifest of a folder with links, verified where it was made and on copies of all kinds."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.manifest.build import BuildOptions, build, new_template
from slurm_io.staging.manifest.files import Form, open_manifest, read_header
from slurm_io.staging.verify.model import VerifyAnswer
from tests.labs.fault_kit import Bench, fill

SIZES = {"blobs/one": 300_000, "blobs/two": 300_000, "blobs/index.json": 4_000, "plain": 10}
LINKS = {
    "snap/000.tar": "../blobs/one",
    "snap/001.tar": "../blobs/two",
    "snap/index.json": "../blobs/index.json",
    "snap/chain": "000.tar",
    "top": "snap/001.tar",
}
LEVELS = (1, 2, 3, 4)


def linked(root: Path) -> None:
    """Files, and links of the usual kinds to them."""
    fill(root, SIZES)
    (root / "snap").mkdir()
    for name, text in LINKS.items():
        (root / name).symlink_to(text)
    (root / "snap/absolute").symlink_to(root / "blobs/one")


@pytest.fixture(params=["jsonl", "parquet"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Not verified yet; the manifest is what `dataset manifest build` makes."""
    return made(tmp_path, request.param)


def made(folder: Path, form: Form = "jsonl") -> Bench:
    root, path = folder / "data", folder / "demo.manifest"
    linked(root)
    options = BuildOptions(new_template("demo"), follow_links="inside", workers=1, form=form)
    build(os.fspath(root), os.fspath(path), options)
    etc = folder / "etc"
    etc.mkdir()
    (etc / "machine-id").write_text("0" * 32 + "\n")
    return Bench(root, folder / "state", etc, open_manifest(os.fspath(path)), path)


def both(bench: Bench, level: int) -> list[VerifyAnswer]:
    """By the record's table alone, and by the manifest alone."""
    return [
        bench.verify(level, with_manifest=False),
        bench.verify(level, with_record=False),
    ]


def test_the_header_says_that_links_were_followed_and_only_then(
    bench: Bench, tmp_path: Path
) -> None:
    assert read_header(os.fspath(bench.manifest_path)).links == "inside"
    assert len(bench.manifest.files) == len(SIZES) + len(LINKS) + 1
    fill(tmp_path / "bare", SIZES)
    options = BuildOptions(new_template("bare"), follow_links="inside", workers=1)
    build(os.fspath(tmp_path / "bare"), os.fspath(tmp_path / "bare.jsonl"), options)
    assert read_header(os.fspath(tmp_path / "bare.jsonl")).links is None
    assert b'"links"' not in (tmp_path / "bare.jsonl").read_bytes()


@pytest.mark.parametrize("level", LEVELS)
def test_the_source_folder_itself_is_ok(bench: Bench, level: int) -> None:
    answer = bench.verify(level, with_record=False)
    assert (answer.answer, answer.level, answer.bad_files) == ("OK", level, ())
    bench.keep_record()
    for answer in both(bench, level):
        assert (answer.answer, answer.level, answer.bad_files) == ("OK", level, ())
    assert bench.verify(level, keep_proof=True).answer == "OK"


def test_a_record_knows_the_files_behind_the_links(bench: Bench) -> None:
    record = bench.keep_record()
    assert (record.state, record.level, record.links) == ("ready", 4, "inside")
    os.utime(bench.root / "blobs/two")
    answer = bench.verify(1, with_manifest=False)
    assert answer.answer == "FAIL"
    found = {bad.path: bad.why for bad in answer.bad_files}
    assert found == dict.fromkeys(("blobs/two", "snap/001.tar", "top"), "changed")
    assert bench.verify(4, with_manifest=False).answer == "OK", "a full hash clears them"


@pytest.mark.parametrize("option", ["-a", "-rL"])
def test_copies_with_links_and_with_links_resolved_are_ok(bench: Bench, option: str) -> None:
    (bench.root / "snap/absolute").unlink()  # of a copy it leads to the source
    shutil.copy(bench.root / "blobs/one", bench.root / "snap/absolute")
    copy = bench.root.with_name("copy")
    subprocess.run(["cp", option, bench.root, copy], check=True)
    for level in LEVELS:
        answer = bench.verify(level, with_record=False, root=copy)
        assert (answer.answer, answer.bad_files) == ("OK", ())


def test_an_absolute_link_of_a_copy_leads_out_of_it(bench: Bench) -> None:
    copy = bench.root.with_name("copy")
    subprocess.run(["cp", "-a", bench.root, copy], check=True)
    answer = bench.verify(1, with_record=False, root=copy)
    assert [(bad.path, bad.why) for bad in answer.bad_files] == [("snap/absolute", "not a file")]
    assert "not to a file inside the folder" in answer.bad_files[0].detail


def relink(root: Path, name: str, text: str | Path) -> None:
    (root / name).unlink()
    (root / name).symlink_to(text)


@pytest.mark.parametrize("with_record", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_a_link_that_leads_outside_is_refused_whatever_lies_there(
    with_record: bool, level: int, tmp_path: Path
) -> None:
    bench = made(tmp_path)
    if with_record:
        bench.keep_record()
    outside = tmp_path / "same-bytes"
    shutil.copy(bench.root / "blobs/one", outside)
    for text in (outside, "../../same-bytes", "/proc/self/root/etc/passwd", "nowhere", "../blobs"):
        relink(bench.root, "snap/000.tar", text)
        found = both(bench, level) if with_record else [bench.verify(level, with_record=False)]
        for answer in found:
            assert answer.answer == "FAIL"
            bad = {each.path: each.why for each in answer.bad_files}
            assert bad == dict.fromkeys(("snap/000.tar", "snap/chain"), "not a file")


@pytest.mark.parametrize(
    ("text", "found_at"), [("../plain", 1), ("../blobs/two", 2), ("../blobs/index.json", 1)]
)
def test_a_link_to_another_file_inside_is_found_as_another_file_is(
    text: str, found_at: int, tmp_path: Path
) -> None:
    bench = made(tmp_path)
    relink(bench.root, "snap/000.tar", text)
    for level in range(found_at, 5):
        assert bench.verify(level, with_record=False).answer == "FAIL"
    relink(bench.root, "snap/000.tar", "../blobs/one")
    bench.keep_record()
    relink(bench.root, "snap/000.tar", text)
    assert bench.verify(1, with_manifest=False).answer == "FAIL", "it is not the inode of before"


def test_a_folder_that_is_a_link_is_refused_as_ever(bench: Bench) -> None:
    (bench.root / "snap").rename(bench.root / "moved")
    (bench.root / "snap").symlink_to("moved")
    assert bench.verify(1, with_record=False).answer == "FAIL"


def test_without_the_manifests_word_no_link_stands_for_a_file(bench: Bench) -> None:
    strict = replace(bench.manifest, header=replace(bench.manifest.header, links=None))
    for level in LEVELS:
        answer = bench.verify(level, with_record=False, manifest=strict)
        assert answer.answer == "FAIL"
        assert {bad.why for bad in answer.bad_files} == {"not a file"}


def test_what_was_a_file_may_be_a_link_inside_and_the_other_way_round(bench: Bench) -> None:
    (bench.root / "plain").rename(bench.root / "blobs/plain")
    (bench.root / "plain").symlink_to("blobs/plain")
    answer = bench.verify(4, with_record=False)
    assert [(bad.path, bad.why) for bad in answer.bad_files] == [("blobs/plain", "extra")]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: os.truncate(path, 5)])
def test_what_befalls_the_file_befalls_its_links(
    damage: Callable[[Path], None], bench: Bench
) -> None:
    damage(bench.root / "blobs/index.json")
    answer = bench.verify(1, with_record=False)
    assert answer.answer == "FAIL"
    assert {bad.path for bad in answer.bad_files} == {"blobs/index.json", "snap/index.json"}


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    bench = made(tmp_path)
    before = set(Path("/proc/self/fd").iterdir())
    for level in LEVELS:
        bench.verify(level, with_record=False)
    assert set(Path("/proc/self/fd").iterdir()) == before
