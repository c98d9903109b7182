"""Sources, limits and repair lists as people write them."""

import json
from pathlib import Path

import pytest

from slurm_io.config import Config, DatasetConfig, StageConfig
from slurm_io.errors import UsageError
from slurm_io.records import replace
from slurm_io.staging.stage import sources
from slurm_io.staging.stage.display import Lines, duration
from slurm_io.staging.stage.order import Progress
from slurm_io.staging.stage.ordering import Words, order_of
from tests.staging.stage.kit import Site

KNOWN = {"path": ["/shared/c4"], "s3": ["s3://bucket/c4"]}


def test_sources_by_place_and_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sources.SECRET_VARIABLE, "hush")
    words = ["/mnt/x/", "s3://b/p", "rsync://u@n3:8730/m", "path", "s3"]
    found = sources.named(words, KNOWN)
    assert [source.kind for source in found] == ["path", "s3", "peer", "path", "s3"]
    assert [source.where for source in found] == [
        "/mnt/x", "s3://b/p", "rsync://u@n3:8730/m", "/shared/c4", "s3://bucket/c4",
    ]  # fmt: skip
    assert (found[2].label, found[2].secret) == ("n3", "hush")
    assert "hush" not in repr(found)


@pytest.mark.parametrize("word", ["relative/x", "http://x/y", "s3:", "rsync://", "peer", "zz"])
def test_what_is_no_source(word: str) -> None:
    with pytest.raises(UsageError):
        sources.named([word], KNOWN)


def test_a_kind_that_the_site_has_not() -> None:
    with pytest.raises(UsageError, match="names none"):
        sources.named(["s3"], {})


def test_the_best_kind_there_is() -> None:
    kinds = ("peer", "s3", "path")
    assert [source.kind for source in sources.preferred(kinds, KNOWN)] == ["s3"]
    assert sources.preferred(kinds, {}) == ()


def test_sources_as_json() -> None:
    row = {"kind": "peer", "where": "rsync://n1/m", "label": "n1", "secret": "s", "readers_max": 2}
    (found,) = sources.from_json(json.dumps([row]))
    assert (found.kind, found.secret, found.readers_max) == ("peer", "s", 2)
    for bad in ("{", "[1]", "{}x", '[{"kind": "peer"}]', json.dumps([row | {"kind": "ftp"}]),
                json.dumps([row | {"more": 1}]), json.dumps([row | {"where": 3}])):  # fmt: skip
        with pytest.raises(UsageError):
            sources.from_json(bad)


def test_a_repair_list() -> None:
    lines = '{"path": "a/b", "why": "content", "ranges": []}\n{"path": "\\udcff"}\n'
    assert sources.repair_list(lines) == {"a/b", "\udcff"}
    for bad in ("x\n", "{}\n", '{"path": 3}\n', "[]\n"):
        with pytest.raises(UsageError, match="line 1"):
            sources.repair_list(bad)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    site = Site.made(tmp_path)
    dataset = DatasetConfig(
        local=str(site.target), shared=str(site.source), manifest=str(tmp_path / "demo.jsonl")
    )
    return replace(Config(), datasets={"demo": dataset}, stage=StageConfig(bandwidth_bytes_s=1000))


def test_an_order_of_a_name(config: Config) -> None:
    order = order_of(config, Words(name="demo", bandwidth="2k"))
    assert (order.name, order.tier, order.streams) == ("demo", "local", 8)
    assert [source.where for source in order.sources] == [config.datasets["demo"].shared]
    assert order.bandwidth_bytes_s == 1000  # the tighter one
    assert order_of(config, Words(name="demo", bandwidth="500")).bandwidth_bytes_s == 500


def test_the_shared_copy_is_no_source_of_itself(config: Config) -> None:
    assert order_of(config, Words(name="demo", tier="shared")).sources == ()


@pytest.mark.parametrize(
    "words",
    [
        Words(),
        Words(name="demo", path="/x"),
        Words(path="/x"),
        Words(name="demo", bandwidth="fast"),
        Words(name="demo", bandwidth="0"),
        Words(name="demo", given=("/x",), sources_json="[]"),
    ],
)
def test_words_that_make_no_order(words: Words, config: Config) -> None:
    with pytest.raises(UsageError):
        order_of(config, words)


def test_a_line_every_ten_seconds() -> None:
    written: list[str] = []
    now = [0.0]
    lines = Lines(written.append, lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        lines(Progress("copying", second * 10**9, 10**11, second, 100))
    assert len(written) == 2
    assert written[0] == "slurm-io: copying 10 GB of 100 GB, 1 GB/s, about 90 s left".replace(
        "90 s", duration(90)
    )


def test_durations() -> None:
    assert [duration(s) for s in (45, 720, 11_100)] == ["45 s", "12 min", "3 h 5 min"]
