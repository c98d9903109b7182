"""Recorded: what the prologs said of single nodes, of many, and of their copies of the dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.analysis.rules.stores import CONTENT_ID, HEALTHY_CHECKS, Row, check, dataset
from tests.analysis.stand_in import StandInStore
from tests.grid.model import BLAMES_STORAGE, F01, NOT_ILL, STORAGE, Recorded
from tests.grid.recordings import ranks_on, store_of, train_in_lockstep

NODES = ("n1", "n2", "n3", "n4")
OLDER = "c1-" + "0" * 32
OTHERS = HEALTHY_CHECKS[1:]  # all but the dataset's
OF_NODES = frozenset({"F11", "F12", "F14"})
Made = tuple[StandInStore, float]


def told(checks: Mapping[str, Row], slow: str = "") -> Made:
    """Four nodes; `checks` stands for the dataset's of these. The ranks of `slow` wait for each
    batch, the others for none."""
    ranks = ranks_on(4, 2)
    truth = train_in_lockstep(
        ranks,
        400,
        lambda k: 0.08,
        lambda rank, k: (0.06, "storage") if rank.node == slow else (0.002, "pipe"),
    )
    store = store_of(ranks)
    for node, one in checks.items():
        store.nodes[node].checks = {"request": {}, "checks": [one, *OTHERS]}
    return store, truth


def without_folder(node: str) -> Row:
    text = f"dataset 'c4' in '/nvme/c4' on node {node} is not there: stage it"
    return dataset("FAIL", text, level=0, folder_missing=True, used_record=False, record=None)


def node_without_dataset() -> Made:
    """One of four nodes has no copy and reads from the shared file system."""
    return told({"n3": without_folder("n3")}, slow="n3")


def dataset_missing_everywhere() -> Made:
    """No node has the copy the manifest asks for; the job reads elsewhere and is healthy."""
    return told({node: without_folder(node) for node in NODES})


def node_of_another_version() -> Made:
    """One of four nodes holds last month's dataset; nothing is slow."""
    record = {"content_id": OLDER, "state": "ready", "level": 4, "age_s": 30 * 86400.0}
    text = f"on node n2 is version {OLDER}, but {CONTENT_ID} is wanted"
    stale = dataset("FAIL", text, level=0, wrong_version=OLDER, used_record=False, record=record)
    return told({"n2": stale})


def old_copies_looked_at() -> Made:
    """Verified a month ago, but each file is as it was then: not stale."""
    record = {"content_id": CONTENT_ID, "state": "ready", "level": 4, "age_s": 30 * 86400.0}
    return told({node: dataset("OK", level=1, record=record) for node in NODES})


def mount(node: str) -> Row:
    text = f"/nvme/{node} is not mounted on node {node}"
    return check("mounts", "FAIL", text, kind="node", subject=f"/nvme/{node}")


def mounts_absent(count: int) -> Made:
    store, truth = told({})
    for node in NODES[:count]:
        store.nodes[node].checks = {"request": {}, "checks": [mount(node), *HEALTHY_CHECKS]}
    return store, truth


def recorded(
    name: str, why: str, make: Callable[[], Made], fired: frozenset[str], **named: object
) -> Recorded:
    """A healthy job, whatever its nodes say."""
    return Recorded(
        name=name,
        why=why,
        make=make,
        verdicts=NOT_ILL,
        fired=fired,
        quiet=(OF_NODES | BLAMES_STORAGE | F01) - fired,
        named=named,
        decoy=True,
    )


SCENARIOS = (
    Recorded(
        name="recorded-node-without-dataset",
        why=(node_without_dataset.__doc__ or "").strip(),
        make=node_without_dataset,
        verdicts=STORAGE,
        fired=F01 | {"F11"},
        quiet=frozenset({"F12", "F14", "F04", "F08", "F10"}),
        named={"nodes": "n3"},
    ),
    recorded(
        "recorded-dataset-missing-everywhere",
        (dataset_missing_everywhere.__doc__ or "").strip(),
        dataset_missing_everywhere,
        frozenset({"F14"}),
    ),
    recorded(
        "recorded-node-of-another-version",
        (node_of_another_version.__doc__ or "").strip(),
        node_of_another_version,
        frozenset({"F12"}),
        nodes="n2",
    ),
    recorded(
        "recorded-old-copies-looked-at",
        (old_copies_looked_at.__doc__ or "").strip(),
        old_copies_looked_at,
        frozenset(),
    ),
    recorded(
        "recorded-mount-absent-on-three",
        "Three of four nodes lack their local mount: what they share is to blame.",
        partial(mounts_absent, 3),
        frozenset({"F14"}),
        nodes="n2",
    ),
    recorded(
        "recorded-mount-absent-on-one",
        "One node lacks its local mount, and that one node is to blame.",
        partial(mounts_absent, 1),
        frozenset(),
    ),
)
