"""WebDataset's wids index: addresses become paths, and bad rows errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError, SlurmIoError
from tests.staging.manifest.imports.reading import MD5, foreign, notes, rows, written


def index(*urls: Any, **more: Any) -> dict[str, Any]:
    shards = [url if isinstance(url, dict) else {"url": url, "nsamples": 2} for url in urls]
    return {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards, **more}


def paths(tmp_path: Path, *urls: Any, **more: Any) -> list[str]:
    return list(rows(foreign(written(tmp_path / "train.json", index(*urls, **more)))))


def test_sizes_and_digests(tmp_path: Path) -> None:
    row = {"url": "s3://b/c4/train-0.tar", "nsamples": 9, "filesize": 7, "md5sum": MD5}
    bare = {"url": "s3://b/c4/train-1.tar", "nsamples": 1, "filesize": None, "md5sum": ""}
    result = foreign(written(tmp_path / "train.json", index(row, bare)))
    assert result.format == "webdataset"
    assert rows(result) == {"train-0.tar": (7, f"md5:{MD5}"), "train-1.tar": (None, None)}
    assert result.manifest.header.sources[1] == "s3://b/c4/"
    assert "10 samples" in notes(result)


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["a.tar", "b/c.tar"], ["a.tar", "b/c.tar", "train.json"]),
        (["./a.tar"], ["a.tar", "train.json"]),
        (["/data/x/a.tar", "/data/y/b.tar"], ["x/a.tar", "y/b.tar"]),
        (["/data//x/./a.tar", "/data/x/b.tar"], ["a.tar", "b.tar"]),
        (["/data/ab/a.tar", "/data/a/b.tar", "/data/abc"], ["a/b.tar", "ab/a.tar", "abc"]),
        (["file:/data/x/a.tar", "file:/data/x/b.tar"], ["a.tar", "b.tar"]),
        (["file:///data/x/a.tar"], ["a.tar"]),
        (["https://user:pw@host/d/a%20b.tar?sig=secret"], ["a b.tar"]),
        (["s3://bucket/d/a%20b.tar"], ["a%20b.tar"]),
        (["s3://bucket/d/a?b#c.tar"], ["a?b#c.tar"]),
        (["gs://bucket/a.tar", "gs://bucket/b.tar"], ["a.tar", "b.tar"]),
    ],
)
def test_addresses_become_paths(tmp_path: Path, urls: list[str], expected: list[str]) -> None:
    assert paths(tmp_path, *urls) == expected


def test_nothing_private_of_an_address_is_kept(tmp_path: Path) -> None:
    source = written(tmp_path / "i.json", index("https://user:pw@host/d/a.tar?sig=secret"))
    header = foreign(source).manifest.header
    assert "pw" not in repr(header)
    assert "secret" not in repr(header)
    assert header.sources[1] == "https://host/d/"


def test_lists_in_files_beside_and_in_place(tmp_path: Path) -> None:
    written(tmp_path / "sub/en.json", index("en-0.tar"))
    datasets = [{"source_url": "sub/en.json"}, {"shardlist": [{"url": "de-0.tar"}]}]
    assert paths(tmp_path, "a.tar", datasets=datasets) == [
        "a.tar",
        "de-0.tar",
        "sub/en-0.tar",
        "train.json",
    ]


def test_a_base_goes_before_relative_addresses(tmp_path: Path) -> None:
    assert paths(tmp_path, "x/a.tar", "b.tar", base="s3://bucket/d") == ["b.tar", "x/a.tar"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (index("pipe:aws s3 cp s3://b/a.tar -"), r"pipe: command"),
        (index("s3://b/train-{0000..0012}.tar"), r"is a pattern.*one row a shard"),
        (index("a{b,c}.tar"), r"is a pattern"),
        (index("a.tar", "a.tar"), r"shardlist\[1\]: a.tar stands twice"),
        (index("s3://a/x.tar", "s3://b/y.tar"), r"several places"),
        (index("s3://b/x.tar", "s3://b\ufeff/y.tar"), r"several places .*\\ufeff"),
        (index("/a/x.tar", "y.tar"), r"several places"),
        (index("../x.tar"), r"holds '..'"),
        (index("a.tar?token=secret/.."), r"holds '..'"),
        (index("s3://b/x/../../y.tar"), r"names no file, or holds '..'"),
        (index("ftp://h/a.tar"), r"none of the known kinds"),
        (index("http://h"), r"names no file"),
        (index("s3://b/x/"), r"names no file"),
        (index({"nsamples": 1}), r"lacks url"),
        (index({"url": "a", "filesize": -1}), r"filesize: -1"),
        (index({"url": "a", "filesize": "12"}), r"whole number"),
        (index({"url": "a", "md5sum": "zz"}), r"md5sum: digest 'zz'"),
        (index({"url": 3}), r"url: must be text"),
        (index(), r"names no shards"),
        (index(wids_version=2), r"wids_version must be 1"),
        (index(datasets=[{"source_url": "https://h/x.json?t=secret"}]), r"fetch it"),
        (index(datasets=[{"source_url": "../x.json"}]), r"holds '..'"),
        (index(datasets=[{"source_url": "train.json"}]), r"only one level"),
    ],
)
def test_bad_indexes_name_place_and_fault(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        foreign(written(tmp_path / "train.json", document), "webdataset")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


URLS = st.text(st.sampled_from("ab/.:{},%?#@[]s3 \\\x00é\udc80"), max_size=20)


@settings(max_examples=300, deadline=None)
@given(st.lists(URLS, min_size=1, max_size=3), st.sampled_from(["", "s3://b/", "http://h/", "/"]))
def test_no_address_crashes_or_leads_out(
    tmp_path_factory: pytest.TempPathFactory, urls: list[str], before: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "wids.json"
    path.write_text(json.dumps(index(*(before + url for url in urls))))
    try:
        found = rows(foreign(path))
    except SlurmIoError as error:
        assert "\n" not in str(error)
        return
    assert not any({"..", ".", ""} & set(name.split("/")) for name in found)
