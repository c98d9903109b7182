"""F16: small reads and metadata that training waits for; large or unawaited ones are fine."""

from __future__ import annotations

from tests.analysis.rules.stores import Row, answer, healthy, job, put, starved, text_of
from tests.analysis.stand_in import MOUNT, StandInStore, one_rank, train

RULE = "f16_small_reads"


def reading(store: StandInStore, bytes_a_second: int, calls: int = 100, faults: int = 0):
    for row in store.nodes["n1"].tables["process"]:
        row |= {"syscr": calls, "rchar_bytes": bytes_a_second, "read_bytes": bytes_a_second,
                "majflt": faults}  # fmt: skip
    return store


def client(store: StandInStore, meta_ops: int, read_ops: int, ms: float = 2.0) -> StandInStore:
    base: Row = {"mount": MOUNT, "fstype": "nfs4", "source": "mountstats", "exe_ms": ms}
    put(
        store,
        "fsclient",
        lambda second: [
            {**base, "op_class": "meta", "ops": meta_ops},
            {**base, "op_class": "read", "ops": read_ops},
        ],
    )
    return store


def test_small_reads_that_training_waits_for() -> None:
    said = answer(RULE, reading(job(starved()), 100 * 8192))
    [finding] = said.findings
    assert finding.confidence == "likely"
    assert finding.where.mounts == (MOUNT,)
    assert "8.0 KiB each" in text_of(said)


def test_many_small_files_are_packed_and_few_large_ones_read_in_larger_pieces() -> None:
    few = reading(job(starved()), 100 * 8192)  # the stand-in waits for three shards in turn
    [finding] = answer(RULE, few).findings
    assert "read larger pieces" in finding.remedy
    assert "buffering" in finding.commands[0]
    many = reading(job(starved()), 100 * 8192)
    for place, row in enumerate(many.nodes["n1"].tables["waits"]):
        row["path"] = f"/scratch/data/{place}.jpg" if row.get("path") else None
    [finding] = answer(RULE, many).findings
    assert "pack the samples" in finding.remedy


def test_large_reads_are_not_the_trouble() -> None:
    said = answer(RULE, reading(job(starved()), 100 * 2**20))
    assert said.state == "quiet"
    assert "1024 KiB" in said.reason


def test_metadata_before_data() -> None:
    store = client(reading(job(starved()), 100 * 2**20), meta_ops=400, read_ops=50)
    said = answer(RULE, store)
    [finding] = said.findings
    assert "waits for metadata" in finding.title
    assert "8.0 operations for each read" in text_of(said)


def test_both_together_are_proof() -> None:
    store = client(reading(job(starved()), 100 * 4096), meta_ops=400, read_ops=50)
    assert answer(RULE, store).findings[0].confidence == "proven"


def test_a_few_cheap_lookups_are_usual() -> None:
    store = client(reading(job(starved()), 100 * 2**20), meta_ops=20, read_ops=500)
    assert answer(RULE, store).state == "quiet"


def test_small_reads_nobody_waits_for_cost_nothing() -> None:
    assert answer(RULE, reading(job(healthy()), 100 * 4096)).state == "quiet"


def test_sockets_hand_over_small_pieces_of_large_requests() -> None:
    assert answer(RULE, reading(job(starved(cause="net")), 100 * 4096)).state == "quiet"


def test_page_faults_are_named_and_have_their_own_remedy() -> None:
    store = reading(job(starved()), 100 * 4096, calls=1, faults=100)
    for row in store.nodes["n1"].tables["waits"]:
        row["n_fault"] = row["n_storage"]
    [finding] = answer(RULE, store).findings
    assert "page faults" in finding.title
    assert finding.evidence[0].metric == "fault_share"
    assert "madvise" in finding.remedy


def test_rare_spikes_are_not_about_the_size_of_reads() -> None:
    rank = train(one_rank(), 600, 0.05, lambda k: (2.0 if k % 50 == 25 else 0.002, "storage"))
    said = answer(RULE, reading(job(rank), 100 * 4096))
    assert said.state == "quiet"
    assert "F02" in said.reason


def test_without_counters_it_says_so() -> None:
    store = job(starved(), calls_per_storage_s=None)
    said = answer(RULE, store)
    assert said.state == "not enough evidence"
    assert "read calls" in said.reason


def test_small_calls_of_a_loader_that_asks_for_large_pieces_are_its_own_pipes() -> None:
    store = reading(job(starved()), 100 * 8192)
    large: Row = {"mount": MOUNT, "fstype": "nfs4", "source": "mountstats", "op_class": "read",
                  "ops": 20, "bytes": 20 * 2**20, "exe_ms": 40.0}  # fmt: skip
    put(store, "fsclient", lambda second: large)
    said = answer(RULE, store)
    assert said.state == "quiet"
    assert "asked for 1024 KiB at a time" in said.reason
    for row in store.nodes["n1"].tables["fsclient"]:
        row["bytes"] = 20 * 4096
    assert answer(RULE, store).state == "fired"


def test_what_a_local_device_was_asked_for_counts_as_well() -> None:
    store = reading(job(starved(), fstype="ext4"), 100 * 8192)
    store.nodes["n1"].meta["sources"]["block"] = {"state": "on", "leaves": {MOUNT: ["sda"]}}
    row: Row = {"device": "sda", "role": "disk", "r_s": 20.0, "rkB_s": 20 * 512.0, "r_await": 40.0}
    put(store, "block", lambda second: row)
    said = answer(RULE, store)
    assert said.state == "quiet"
    assert "asked for 512 KiB at a time" in said.reason


def test_what_others_read_from_the_nodes_disk_says_nothing_of_a_mount_without_a_device() -> None:
    """A FUSE mount tells no sizes; the node's own disk serves everybody."""
    store = reading(job(starved(), fstype="fuse.slow"), 100 * 2048)
    row: Row = {"device": "sda", "role": "disk", "r_s": 20.0, "rkB_s": 20 * 512.0, "r_await": 40.0}
    put(store, "block", lambda second: row)
    assert answer(RULE, store).state == "fired"


def test_a_stray_sample_of_the_local_disk_brings_in_no_device() -> None:
    store = reading(job(starved(), fstype="fuse.slow"), 100 * 2048)
    store.nodes["n1"].meta["sources"]["block"] = {"state": "on", "leaves": {"/": ["sda"]}}
    row: Row = {"device": "sda", "role": "disk", "r_s": 20.0, "rkB_s": 20 * 512.0, "r_await": 40.0}
    put(store, "block", lambda second: row)
    waits = store.nodes["n1"].tables["waits"]
    first = next(one for one in waits if one.get("n_storage"))
    waits.append({**first, "mount": "/", "fstype": "ext4", "path": "/lib/x.so", "n_storage": 1})
    assert answer(RULE, store).state == "fired"
