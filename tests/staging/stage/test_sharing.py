"""The queue between sources: disjoint, big files first, what comes back goes to others."""

import threading

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.copying import split
from slurm_io.staging.stage.sharing import BATCH_BYTES, BIG_BYTES, Item, Share


def items(*sizes: int) -> list[Item]:
    return [Item(n, FileEntry(f"f{n}", size)) for n, size in enumerate(sizes)]


def taken(share: Share, source: int, count: int) -> list[int]:
    return [item.index for item in share.take(source, count)]


def test_big_files_go_first_and_small_ones_in_order() -> None:
    share = Share(items(1, BIG_BYTES, 2, 3 * BIG_BYTES))
    assert taken(share, 0, 2) == [3, 1]
    assert taken(share, 1, 9) == [0, 2]


def test_a_call_gets_no_more_than_a_batch_of_bytes_but_always_one_file() -> None:
    share = Share(items(2 * BATCH_BYTES, BATCH_BYTES // 2, BATCH_BYTES // 2, 1))
    assert taken(share, 0, 9) == [0]
    assert taken(share, 0, 9) == [1, 2]
    assert taken(share, 0, 9) == [3]


def test_every_thread_gets_something_to_do() -> None:
    share = Share(items(*[1] * 1000), lanes=4)
    counts = []
    while got := share.take(0, 500):
        counts.append(len(got))
        share.finish(len(got))
    assert counts[0] == 125
    assert min(counts[:-1]) == 16
    big = Share(items(*[BIG_BYTES - 1] * 16), lanes=8)
    assert len(big.take(0, 500)) == 1


def test_what_one_source_refused_goes_to_another() -> None:
    share = Share(items(1))
    (item,) = share.take(0, 1)
    item.refuse(0)
    share.give_back([item])
    assert share.take(0, 1) == []
    assert share.take(1, 1) == [item]
    share.finish()
    assert share.take(1, 1) == []
    assert share.left() == []


def test_a_source_waits_while_another_may_give_back() -> None:
    share = Share(items(1))
    (item,) = share.take(0, 1)
    got: list[list[Item]] = []
    waiting = threading.Thread(target=lambda: got.append(share.take(1, 1)))
    waiting.start()
    item.refuse(0)
    share.give_back([item])
    waiting.join(60)
    assert got == [[item]]


def test_nobody_waits_once_it_is_closed_or_dropped() -> None:
    share = Share(items(1, 1))
    share.take(0, 1)
    share.drop(1)
    assert share.take(1, 1) == []
    share.close()
    assert share.take(0, 1) == []
    assert [item.index for item in share.left()] == [1]


def test_streams_are_shared_out_within_each_sources_limit() -> None:
    assert split(8, [0]) == [8]
    assert split(8, [0, 0]) == [4, 4]
    assert split(8, [2, 0, 0]) == [2, 3, 3]
    assert split(1, [0, 0]) == [1, 1]
    assert split(8, [1, 2]) == [1, 2]
