"""What is proven is kept entry by entry, each with its checksum: damage costs what it hit."""

import os
from pathlib import Path

from slurm_io.staging.verify.journal import FILE_NAME, Journal, known_of

STAMPS = {n: (100 + n, 5, 7, 9) for n in range(5)}
ENTRY_BYTES = 44


def written(folder: Path) -> bytearray:
    """A journal of five files."""
    descriptor = os.open(folder, os.O_RDONLY)
    with Journal(descriptor, "c1-x", 42) as journal:
        for index, stamp in STAMPS.items():
            journal.add(index, stamp)
    os.close(descriptor)
    return bytearray((folder / FILE_NAME).read_bytes())


def known(folder: Path, content_id: str = "c1-x", inode: int = 42) -> dict[int, object]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return dict(known_of(descriptor, content_id, inode))
    finally:
        os.close(descriptor)


def test_it_is_read_back_for_the_same_version_and_folder_only(tmp_path: Path) -> None:
    written(tmp_path)
    assert known(tmp_path) == STAMPS
    assert known(tmp_path, "c1-y") == {}
    assert known(tmp_path, inode=43) == {}


def test_a_torn_end_costs_one_entry(tmp_path: Path) -> None:
    raw = written(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(raw[:-3])
    assert known(tmp_path) == {n: STAMPS[n] for n in range(4)}
    assert written_on(tmp_path) == STAMPS


def test_a_damaged_entry_proves_nothing_and_the_others_stay(tmp_path: Path) -> None:
    raw = written(tmp_path)
    raw[-2 * ENTRY_BYTES + 10] ^= 1
    raw[-ENTRY_BYTES:] = bytes(ENTRY_BYTES)  # as a power cut leaves it
    (tmp_path / FILE_NAME).write_bytes(raw)
    assert known(tmp_path) == {n: STAMPS[n] for n in range(3)}
    assert written_on(tmp_path) == STAMPS


def written_on(folder: Path) -> dict[int, object]:
    """After somebody went on with it."""
    written(folder)
    return known(folder)
