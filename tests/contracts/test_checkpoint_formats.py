"""What every checkpoint format keeps to, whoever wrote it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slurm_io.staging.beneath import Folder
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.found import find_files, find_folder

NAMES = sorted(FORMATS.discover())
DOCS = Path(__file__).parents[2] / "docs" / "checkpoints-whole.md"


def is_recognised(form: str, path: Path, name: str) -> bool:
    deadline_s = time.monotonic() + 60
    with Folder.at(path) as folder:
        if (path / name).is_dir():
            found = find_folder(folder, name.encode(), deadline_s)
        else:
            found = find_files(folder, [name.encode()], name, deadline_s)
        return FORMATS.get(form)().recognises(found)


@pytest.mark.parametrize("name", NAMES)
class TestEveryFormat:
    def test_bears_its_files_name_and_is_in_the_docs(self, name: str) -> None:
        assert FORMATS.get(name).name == name
        assert f"`{name}`" in DOCS.read_text("utf-8")

    def test_recognises_nothing_in_an_empty_folder(self, name: str, tmp_path: Path) -> None:
        for folder in ("step-1", "iter_0000001", "checkpoint-1", "global_step1"):
            (tmp_path / folder).mkdir()
            assert not is_recognised(name, tmp_path, folder)

    def test_recognises_no_text(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("step 1 of 10")
        assert not is_recognised(name, tmp_path, "notes.txt")


def test_no_two_speak_at_once() -> None:
    orders = [form.order for form in FORMATS]
    assert len(orders) == len(set(orders))
