"""Dataset features of nodes: only ours change, and only on a node's own word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slurm_io.errors import SlurmError
from slurm_io.reservation.features import feature_of, sync_features, wanted_features
from slurm_io.reservation.model import DataSays, NodeSays
from slurm_io.slurm.infos import NodeInfo

ID = "c1-0123456789abcdef0123456789abcdef"
OURS = "ds_c4_0123456789ab"
HOLDS = NodeSays("t1", 1.0, DataSays(ID, "ready", 4, 1.0, 0, 0))
SITES = ("a100", "ds_important", "ds_c4", "ds_pile_aaaaaaaaaaaa", "rack=7", "ds_c4_old")


def test_feature_names_dataset_and_version() -> None:
    assert feature_of("c4", ID) == OURS
    assert feature_of("c4.en+v2", ID) == "ds_c4_en_v2_0123456789ab"


def test_feature_is_added_behind_those_of_the_site() -> None:
    assert wanted_features(SITES, "c4", HOLDS, True) == (*SITES, OURS)


def test_other_versions_go_and_the_sites_features_keep_order_and_spelling() -> None:
    current = ("ds_c4_ffffffffffff", *SITES, OURS)
    assert wanted_features(current, "c4", HOLDS, True) == (*SITES, OURS)


@pytest.mark.parametrize("state", ["absent", "copying", "degraded", "failed"])
def test_node_that_does_not_hold_it_has_no_feature(state: str) -> None:
    assert HOLDS.data is not None
    says = replace(HOLDS, data=replace(HOLDS.data, state=state))
    assert wanted_features((*SITES, OURS), "c4", says, True) == SITES


def test_record_that_proves_nothing_gives_no_feature() -> None:
    assert HOLDS.data is not None
    says = replace(HOLDS, data=replace(HOLDS.data, problem="of another machine"))
    assert wanted_features((OURS,), "c4", says, True) == ()


@pytest.mark.parametrize("says", [None, NodeSays("t1", 1.0, problem="no answer")])
def test_silent_node_keeps_what_it_has(says: NodeSays | None) -> None:
    assert wanted_features((*SITES, OURS), "c4", says, True) == (*SITES, OURS)


@pytest.mark.parametrize("says", [None, HOLDS])
def test_distrusted_node_has_none_whatever_it_says(says: NodeSays | None) -> None:
    assert wanted_features((*SITES, OURS), "c4", says, False) == SITES


class OneNode:
    """A Slurm with one node, in which somebody else may write too."""

    def __init__(self, *features: str, meddler: str | None = None) -> None:
        self.info = NodeInfo("t1", "IDLE", features=features)
        self.meddler = meddler
        self.writes = 0

    def node(self, name: str) -> NodeInfo:
        assert name == "t1"
        return self.info

    def set_features(self, node: str, features: Sequence[str]) -> None:
        self.writes += 1
        extra = () if self.meddler is None else (self.meddler,)
        self.info = replace(self.info, features=(*features, *extra))


def test_change_is_read_back_and_told() -> None:
    slurm = OneNode("a100", "ds_c4_ffffffffffff")
    told = sync_features(slurm, slurm.info, "c4", HOLDS, True)
    assert told == f"features +{OURS} -ds_c4_ffffffffffff"
    assert slurm.info.features == ("a100", OURS)
    assert sync_features(slurm, slurm.info, "c4", HOLDS, True) is None and slurm.writes == 1


def test_what_was_changed_since_it_was_read_is_kept() -> None:
    slurm = OneNode("a100", "new-since")
    sync_features(slurm, NodeInfo("t1", "IDLE", features=("a100",)), "c4", HOLDS, True)
    assert slurm.info.features == ("a100", "new-since", OURS)


def test_somebody_who_writes_at_the_same_time_is_told() -> None:
    slurm = OneNode("a100", meddler="other")
    with pytest.raises(SlurmError, match="at the same time"):
        sync_features(slurm, slurm.info, "c4", HOLDS, True)


@pytest.mark.parametrize("version", ["h100", "c1-", "c1-x:y", "c1-" + "g" * 32, "gpu," * 9, ""])
def test_a_version_that_is_none_never_becomes_a_feature(version: str) -> None:
    """A sick node names its version: Slurm's list must not grow with each of its answers."""
    assert HOLDS.data is not None
    says = replace(HOLDS, data=replace(HOLDS.data, content_id=version))
    assert wanted_features(SITES, "c4", says, True) == SITES


def test_what_a_users_process_told_changes_no_feature() -> None:
    says = replace(HOLDS, told_by=1001)
    assert wanted_features(SITES, "c4", says, True) == SITES
    assert wanted_features((*SITES, OURS), "c4", says, True) == (*SITES, OURS)
    assert wanted_features((*SITES, OURS), "c4", says, False) == SITES
