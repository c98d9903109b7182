"""F05: saves that failed for lack of space, and those that will."""

from __future__ import annotations

import json

import pytest

from tests.analysis.rules.stores import Row, answer, healthy, job, put, text_of
from tests.analysis.stand_in import StandInStore, one_rank

RULE = "f05_space_running_out"
GB = 10**9
MOUNTS = [
    {"mount": "/", "fstype": "ext4"},
    {"mount": "/scratch", "fstype": "lustre"},
    {"mount": "/scratch/deep", "fstype": "nfs4"},
]


def saving(size: int = 10 * GB, *, same_path: bool = False, every: int = 100, **last: object):
    rank = one_rank()
    for k in range(1200):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % every == every - 1:
            name = "last" if same_path else f"step{k}"
            more = last if k > 1100 else {}
            rank.event("ckpt_save", 1.0, bytes=size, path=f"/scratch/ckpt/{name}.pt", **more)
    return rank


def store_of(rank, avail, mount: str = "/scratch") -> StandInStore:
    store = job(rank)
    store.nodes["n1"].meta["mounts"] = MOUNTS
    put(store, "capacity", lambda second: _room(mount, avail(second)), interval=False, every_s=5)
    return store


def _room(mount: str, avail: float) -> Row:
    return {"mount": mount, "fstype": "lustre", "size_bytes": 1000 * GB,
            "used_bytes": 1000 * GB - int(avail), "avail_bytes": int(avail)}  # fmt: skip


def test_a_full_dataset_disk_that_does_not_grow_is_fine() -> None:
    said = answer(RULE, store_of(saving(), lambda second: 143 * GB))
    assert (said.state, said.findings) == ("quiet", ())
    assert "143 GB" in said.reason


def test_what_is_left_must_hold_two_more() -> None:
    said = answer(RULE, store_of(saving(), lambda second: 21 * GB))
    [finding] = said.findings
    assert finding.where.mounts == ("/scratch",)
    assert finding.where.nodes == ()  # shared: no node's own
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert "one save takes 10 GB" in text_of(said)
    assert any(line.startswith("lfs quota") for line in finding.commands)


def test_saves_that_replace_one_another_need_room_for_one() -> None:
    fits = answer(RULE, store_of(saving(same_path=True), lambda second: 21 * GB))
    assert fits.state == "quiet"
    does_not = answer(RULE, store_of(saving(same_path=True), lambda second: 10 * GB))
    assert does_not.state == "fired"


def test_full_before_two_saves_have_passed() -> None:
    # Saves come every 6 s; 0.25 GB are written a second and 2 GB are left at the end.
    rank = saving(size=GB // 2)
    end = rank.now
    said = answer(RULE, store_of(rank, lambda second: 2 * GB + (end - second) * GB // 4))
    [finding] = said.findings
    assert [one.metric for one in finding.evidence] == ["time_to_full_s"]


def test_files_that_come_and_go_are_no_trend() -> None:
    said = answer(RULE, store_of(saving(size=GB // 2), lambda second: (4 + second // 5 % 2) * GB))
    assert said.state == "quiet"


@pytest.mark.parametrize(("errno", "name"), [(28, "ENOSPC"), (122, "EDQUOT")])
def test_a_failed_save_names_its_error(errno: int, name: str) -> None:
    rank = saving(failed=True, detail=json.dumps({"error": "OSError", "errno": errno}))
    said = answer(RULE, store_of(rank, lambda second: 500 * GB))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "likely")
    assert name in text_of(said)
    assert finding.where.files == ("/scratch/ckpt/step1199.pt",)


def test_error_and_empty_mount_together_are_proof() -> None:
    rank = saving(failed=True, detail='{"error": "OSError", "errno": 28}')
    said = answer(RULE, store_of(rank, lambda second: 4096))
    [finding] = said.findings  # and no forecast for what has failed already
    assert finding.confidence == "proven"


def test_a_failed_save_without_number_on_a_full_mount() -> None:
    rank = saving(failed=True, detail='{"error": "RuntimeError"}')
    said = answer(RULE, store_of(rank, lambda second: 4096))
    assert said.findings[0].confidence == "likely"
    assert "4.1 kB were left" in text_of(said)


def test_torchs_writer_failed_and_nobody_knows_how_full_it_was() -> None:
    rank = saving(failed=True, detail='{"error": "RuntimeError", "write_failed": true}')
    store = job(rank)
    store.nodes["n1"].meta["mounts"] = MOUNTS
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "not-proven"
    assert "perhaps" in finding.title


def test_torchs_writer_failed_with_plenty_of_room_which_a_quota_may_be() -> None:
    rank = saving(failed=True, detail='{"error": "RuntimeError", "write_failed": true}')
    said = answer(RULE, store_of(rank, lambda second: 500 * GB))
    assert said.findings[0].confidence == "not-proven"
    assert "or quota" in said.findings[0].title
    assert "500 GB were left" in text_of(said)


def test_a_save_that_failed_for_another_reason_is_not_space() -> None:
    rank = saving(failed=True, detail='{"error": "PermissionError", "errno": 13}')
    said = answer(RULE, store_of(rank, lambda second: 500 * GB))
    assert said.state == "quiet"
    assert "another reason" in said.reason


def test_the_innermost_mount_decides() -> None:
    """/scratch is full, but the checkpoints lie on /scratch/deep."""
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 49:
            rank.event("ckpt_save", 1.0, bytes=GB, path=f"/scratch/deep/{k}.pt")
    said = answer(RULE, store_of(rank, lambda second: 0))
    assert (said.state, said.findings) == ("not enough evidence", ())
    assert "/scratch/deep" in said.reason


def test_no_more_files_can_be_made() -> None:
    store = job(saving())
    store.nodes["n1"].meta["mounts"] = MOUNTS
    room = {**_room("/scratch", 900 * GB), "inodes": 10**6, "inodes_avail": 3}
    put(store, "capacity", lambda second: room, interval=False, every_s=30)
    assert "only 3 more files" in text_of(answer(RULE, store))


def test_without_the_capacity_table_room_is_not_known() -> None:
    store = job(saving())
    store.nodes["n1"].meta["mounts"] = MOUNTS
    said = answer(RULE, store)
    assert said.state == "not enough evidence"
    assert "capacity" in said.reason


def test_a_job_without_checkpoints_has_nothing_to_fear() -> None:
    assert answer(RULE, job(healthy())).state == "quiet"


@pytest.mark.parametrize("detail", ["", "{", "[]", '{"errno": "x"}', '{"errno": true}', None])
def test_nonsense_in_detail_is_no_error_number(detail: str | None) -> None:
    rank = saving(failed=True, detail=detail)
    assert answer(RULE, store_of(rank, lambda second: 500 * GB)).state == "quiet"


def unhooked(avail: int, folder: str | None = "/scratch/ckpt") -> StandInStore:
    """Nobody timed anything; the job named its folder for checkpoints."""
    store = store_of(saving(), lambda second: avail)
    for table in ("steps", "events"):
        store.nodes["n1"].tables[table].clear()
    store.nodes["n1"].checks = {"request": {"ckpt": folder}, "checks": []}
    return store


def test_without_a_hook_only_a_full_mount_that_the_job_named_fires() -> None:
    [finding] = answer(RULE, unhooked(4096)).findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert finding.where.mounts == ("/scratch",)
    assert answer(RULE, unhooked(10 * GB)).state == "quiet"
    assert answer(RULE, unhooked(4096, None)).state == "not enough evidence"
    assert answer(RULE, unhooked(4096, "/home/ada")).state == "not enough evidence"
