"""Roles by names."""

from __future__ import annotations

import pytest

from slurm_io.staging.manifest.roles import role_of


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("index.json", "index"),
        ("a/train.idx", "index"),
        ("a/x.ds.index", "index"),
        ("model.safetensors.index.json", "index"),
        ("a/INDEX.JSON", "index"),
        ("state.json", "metadata"),
        ("a/dataset_info.json", "metadata"),
        ("tokenizer.json", "metadata"),
        ("tokenizer.model", "metadata"),
        ("train.bin", "data"),
        ("index.json/0.bin", "data"),
        ("myindex.json", "data"),
        ("a.json", "data"),
    ],
)
def test_role(path: str, role: str) -> None:
    assert role_of(path) == role
