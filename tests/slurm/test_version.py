"""Which Slurm answers, and in which words to ask it."""

from __future__ import annotations

import pytest

from slurm_io.errors import SlurmError
from slurm_io.slurm.version import meta_of, parse_json, parse_version, schema_for


@pytest.mark.parametrize(
    ("text", "version"),
    [("slurm-wlm 22.05.8\n", (22, 5, 8)), ("slurm 24.11.5", (24, 11, 5)), ("26.05", (26, 5, 0)),
     ("slurm 23.02.7-1.el9", (23, 2, 7)), ("24.11.0-0rc2", (24, 11, 0)),
     ("slurm 25.05.0-0pre1", (25, 5, 0)), ("slurm 21.08.8-2", (21, 8, 8))],
)  # fmt: skip
def test_versions(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "slurm", "slurm 5", "2026-11-30", "100.05.1"])
def test_no_version(text: str) -> None:
    with pytest.raises(SlurmError, match="names no version"):
        parse_version(text)


@pytest.mark.parametrize(
    ("version", "schema"),
    [((22, 5, 8), None), ((23, 2, 0), ""), ((23, 11, 1), "v0.0.40"), ((24, 5, 0), "v0.0.40"),
     ((24, 11, 5), "v0.0.42"), ((25, 11, 6), "v0.0.42"), ((26, 5, 5), "v0.0.42"),
     ((26, 11, 0), "v0.0.45"), ((30, 5, 0), "v0.0.45")],
)  # fmt: skip
def test_a_schema_that_several_releases_share(
    version: tuple[int, int, int], schema: str | None
) -> None:
    assert schema_for(version) == schema


def test_errors_are_errors_and_warnings_are_not() -> None:
    told = {"errors": [{"description": "Unable to dump", "error": "Unspecified error"}],
            "warnings": ["old", {"description": "Zero jobs"}]}  # fmt: skip
    meta = meta_of(told)
    assert not meta.usable and meta.errors == ("Unable to dump: Unspecified error",)
    assert meta.warnings == ("old", "Zero jobs")
    assert meta_of({"errors": None, "warnings": {}}).usable
    assert not meta_of({"errors": {"error": "x"}}).usable
    assert not meta_of({"errors": "x"}).usable


@pytest.mark.parametrize(
    "meta",
    [None, [], {"slurm": []}, {"slurm": {"version": {"major": "x", "minor": 1, "micro": 2}}},
     {"plugin": "v0.0.42"}, {"slurm": {"version": {"major": 1}, "release": "unknown"}}],
)  # fmt: skip
def test_a_meta_of_another_shape_says_nothing(meta: object) -> None:
    told = meta_of({"meta": meta})
    assert (told.version, told.schema, told.usable) == (None, None, True)


def test_a_release_stands_in_for_a_version() -> None:
    assert meta_of({"meta": {"slurm": {"release": "25.05.0-0rc1"}}}).version == (25, 5, 0)


@pytest.mark.parametrize("text", ["", "x", "[]", "null", '{"a": NaN}', "[" * 100_000, '{"a": 1'])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(SlurmError, match="not the JSON"):
        parse_json(text)
