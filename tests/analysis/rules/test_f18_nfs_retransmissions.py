"""F18: NFS requests sent again, or waiting for a slot."""

from __future__ import annotations

from tests.analysis.rules.stores import Row, answer, healthy, job, put, several, starved, text_of
from tests.analysis.stand_in import StandInStore, train_together

RULE = "f18_nfs_retransmissions"


def nfs(mount: str = "/scratch", fstype: str = "nfs4", **values: object) -> Row:
    usual = {"ops": 1000, "retrans": 0, "rtt_ms": 1.0, "exe_ms": 1.1, "queue_ms": 0.1}
    return {"mount": mount, "fstype": fstype, "source": "mountstats", "op_class": "read",
            **usual, **values}  # fmt: skip


def on(store: StandInStore, row: Row, node: str = "n1") -> StandInStore:
    put(store, "fsclient", lambda second: row, node=node)
    return store


def test_resent_operations_while_training_waits() -> None:
    said = answer(RULE, on(job(starved()), nfs(retrans=30)))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("warn", "proven")
    assert finding.where.mounts == ("/scratch",)
    assert finding.where.nodes == ("n1",)
    assert "(3.0%)" in text_of(said)


def test_resent_operations_nobody_waits_for_are_worth_a_word_only() -> None:
    [finding] = answer(RULE, on(job(healthy()), nfs(retrans=30))).findings
    assert (finding.severity, finding.confidence) == ("info", "likely")
    assert finding.lost_gpu_s is None


def test_a_handful_is_nothing() -> None:
    store = job(starved())
    put(store, "fsclient", lambda second: nfs(ops=5, retrans=int(second % 10 == 0)))
    assert answer(RULE, store).state == "quiet"  # 2 %, but of six operations sent again


def test_half_a_per_cent_is_quiet() -> None:
    said = answer(RULE, on(job(starved()), nfs(retrans=5)))
    assert said.state == "quiet"
    assert "sent again" in said.reason


def test_the_one_node_with_the_bad_link_is_named() -> None:
    ranks = train_together(several(4, nodes=4), 300, 0.05, lambda r, k: (0.03, "storage"))
    store = job(*ranks)
    for number in range(1, 5):
        on(store, nfs(retrans=80 if number == 3 else 0), f"n{number}")
    [finding] = answer(RULE, store).findings
    assert finding.where.nodes == ("n3",)
    assert "own links" in finding.remedy


def test_waiting_for_slots_longer_than_for_the_server() -> None:
    said = answer(RULE, on(job(starved()), nfs(queue_ms=12.0, rtt_ms=0.8)))
    [finding] = said.findings
    assert "nconnect" in text_of(said)
    assert "wait on the client" in finding.title


def test_a_slow_server_is_not_the_clients_fault() -> None:
    assert answer(RULE, on(job(starved()), nfs(queue_ms=12.0, rtt_ms=80.0))).state == "quiet"


def test_busy_seconds_weigh_more_than_idle_ones() -> None:
    """One slow operation a second beside 5000 fast ones in every tenth."""
    store = job(starved())
    put(
        store,
        "fsclient",
        lambda second: nfs(ops=5000, queue_ms=0.1) if second % 10 == 0 else nfs(ops=1, queue_ms=40),
    )
    assert answer(RULE, store).state == "quiet"


def test_other_clients_are_not_judged() -> None:
    said = answer(RULE, on(job(starved()), nfs(fstype="lustre", retrans=300)))
    assert said.state == "not enough evidence"  # the stand-in's waits are on an nfs4 mount


def test_no_nfs_at_all_is_quiet_and_missing_counters_are_not() -> None:
    quiet = answer(RULE, job(starved(), fstype="ext4"))
    assert (quiet.state, quiet.reason) == ("quiet", "no NFS mount was in use")
    blind = answer(RULE, job(starved()))
    assert blind.state == "not enough evidence"
    assert "fsclient" in blind.reason


def test_counters_that_are_null_are_not_zero() -> None:
    said = answer(RULE, on(job(starved()), nfs(retrans=None, queue_ms=None, rtt_ms=None)))
    assert said.state == "not enough evidence"


def test_resent_before_training_does_not_count() -> None:
    store = job(healthy())
    put(store, "fsclient", lambda second: nfs(retrans=500 if second <= 102 else 0))
    assert answer(RULE, store).state == "quiet"
