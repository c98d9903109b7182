"""Where targets read when no node has the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurm_io.commands import cli
from slurm_io.config import Config, parse
from slurm_io.reservation.staging.model import Donor, Wish
from slurm_io.reservation.staging.planning import other_places

WISH = Wish("c4", ("t2",))


def config_of(folder: Path, bucket: str = "", **dataset: Any) -> Config:
    """A dataset of one file, its manifest with a bucket or without."""
    (folder / "c4").mkdir()
    (folder / "c4" / "a.bin").write_bytes(b"a")
    manifest = str(folder / "c4.jsonl")
    words = ["dataset", "manifest", "build", str(folder / "c4"), "-o", manifest]
    done = CliRunner().invoke(cli, [*words, *(("--source", bucket) if bucket else ())])
    assert done.exit_code == 0, done.output
    return parse({"dataset": {"c4": {"local": "/data/c4", "manifest": manifest, **dataset}}})


@pytest.mark.parametrize(
    ("bucket", "dataset", "places"),
    [
        ("", {}, ()),
        ("", {"shared": "/lustre/c4"}, ("path",)),
        ("s3://b/c4", {}, ("s3",)),
        ("s3://b/c4", {"shared": "/lustre/c4"}, ("s3",)),
        ("https://b/c4", {"shared": "/lustre/c4"}, ("path",)),
    ],
)
def test_the_first_kind_that_the_dataset_has(
    tmp_path: Path, bucket: str, dataset: dict[str, str], places: tuple[str, ...]
) -> None:
    assert other_places(config_of(tmp_path, bucket, **dataset), WISH, ()) == places


def test_none_where_a_node_gives_or_one_was_named(tmp_path: Path) -> None:
    config = config_of(tmp_path, shared="/lustre/c4")
    assert other_places(config, WISH, (Donor("t1", "spare", "t1"),)) == ()
    assert other_places(config, Wish("c4", ("t2",), ("t9",)), ()) == ()
