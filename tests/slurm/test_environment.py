"""What a hook believes of its environment: path components strictly, the user's words hardly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.environment import read_environment
from slurm_io.slurm.job_places import places_of

# As slurmd 22.05.8 sets it for Prolog (no SLURM_JOB_NODELIST before 23.02).
PROLOG = {
    "SLURM_CLUSTER_NAME": "lab",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURMD_NODENAME": "t2",
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "100",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_ACCOUNT": "(null)",
    "SLURM_JOB_WORK_DIR": "/home/ada/run",
    "SLURM_JOB_COMMENT": "slurm-io: tier=local",
    "SLURM_JOB_RESTART_COUNT": "2",
    "SLURM_JOB_GPUS": "0,2-4",
    "SLURM_NODELIST": "t[2-3]",
    "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
}


def test_a_real_prologs_environment() -> None:
    job = read_environment(PROLOG)
    identity = job.identity
    assert (identity.cluster, identity.job, identity.restart) == ("lab", "17", 2)
    assert (identity.user, identity.uid, job.gid) == ("ada", 1000, 100)
    assert identity.nodes == ("t2", "t3")
    assert identity.gpus_on_node == 4
    assert identity.account is None
    assert identity.work_dir == "/home/ada/run"
    assert job.comment == "slurm-io: tier=local"


def test_newer_versions_name_the_nodes_otherwise() -> None:
    assert read_environment({**PROLOG, "SLURM_JOB_NODELIST": "n1"}).identity.nodes == ("n1",)


@pytest.mark.parametrize(
    ("said", "sluid"),
    [("s5K1KKYAYG5D00", "s5K1KKYAYG5D00"), (None, None), ("", None), ("s5K1KKYAYG5D0", None),
     ("../../etc/passwd", None), ("s5K1KKYAYG5D0/", None), ("s5K1KKYAYG5DIL", None)],
)  # fmt: skip
def test_the_sluid_names_a_folder_and_is_held_to_its_form(
    said: str | None, sluid: str | None
) -> None:
    told = {} if said is None else {"SLURM_JOB_SLUID": said}
    assert read_environment({**PROLOG, **told}).sluid == sluid


MIG = "MIG-a13d1f5b-9b4c-5b8f-8f3a-3a6a0c1f0d11"


@pytest.mark.parametrize(
    ("told", "gpus"),
    [
        ({"SLURM_JOB_GPUS": "0,2-4"}, "SLURM_JOB_GPUS=0,2-4"),
        ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0"}, "SLURM_JOB_GPUS=0"),
        # On a MIG node the numbers count slices; slurmd gives the names too.
        ({"SLURM_JOB_GPUS": "5", "CUDA_VISIBLE_DEVICES": MIG}, f"CUDA_VISIBLE_DEVICES={MIG}"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, None),
        ({"SLURM_JOB_GPUS": "1\n2"}, None),
        ({"SLURM_JOB_GPUS": "1" * 9000}, None),
        ({"SLURM_JOB_GPUS": ""}, None),
        ({}, None),
    ],
)
def test_which_gpus_the_job_was_given(told: dict[str, str], gpus: str | None) -> None:
    prolog = {name: value for name, value in PROLOG.items() if name != "SLURM_JOB_GPUS"}
    assert read_environment(prolog | told).gpus == gpus


def test_absent_values_are_none() -> None:
    needed = ("SLURM_JOB_ID", "SLURM_JOB_UID", "SLURMD_NODENAME")
    identity = read_environment({name: PROLOG[name] for name in needed}).identity
    assert identity.restart == 0
    assert identity.work_dir is None
    assert identity.gpus_on_node is None
    assert identity.nodes == ()


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_UID", "SLURMD_NODENAME"])
def test_without_id_uid_or_node_there_is_no_job(name: str) -> None:
    with pytest.raises(SlurmError, match=name):
        read_environment({key: value for key, value in PROLOG.items() if key != name})


HOSTILE = ["", "..", ".", "../../etc", "1/2", "-1", "1;reboot", "1\n", "٣", "1" * 50, "0x1", "a\0b"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_RESTART_COUNT", "SLURM_JOB_UID"])
def test_a_number_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(SlurmError, match=name):
        read_environment({**PROLOG, name: value})


@pytest.mark.parametrize("value", ["", "..", ".", ".hidden", "../../etc", "a/b", "a\nb", "-rf"])
@pytest.mark.parametrize("name", ["SLURM_CLUSTER_NAME", "SLURMD_NODENAME"])
def test_a_name_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(SlurmError, match=name):
        read_environment({**PROLOG, name: value})


@pytest.mark.parametrize("user", ["DOM\\ada", "ada@realm.org", "jörg", "a b", "$(reboot)", "../x"])
def test_odd_user_names_are_data_and_never_a_path(user: str) -> None:
    job = read_environment({**PROLOG, "SLURM_JOB_USER": user})
    assert job.identity.user == user
    places = places_of(job, "/spool", "/run")
    assert (places.spool, places.runtime) == ("/spool/lab/17.2/t2", "/run/t2/17")


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "x" * 300_000, "\udcff"])
def test_unprintable_or_endless_text_is_not_kept(text: str) -> None:
    hostile = dict.fromkeys(("SLURM_JOB_USER", "SLURM_JOB_WORK_DIR", "SLURM_JOB_COMMENT"), text)
    identity = read_environment({**PROLOG, **hostile}).identity
    assert identity.user == "unknown"
    assert identity.work_dir is None
    assert identity.comment is None


def test_a_relative_work_dir_is_not_believed() -> None:
    assert read_environment({**PROLOG, "SLURM_JOB_WORK_DIR": "x"}).identity.work_dir is None


def test_a_broken_node_list_costs_the_list_only() -> None:
    assert read_environment({**PROLOG, "SLURM_NODELIST": "t[1-"}).identity.nodes == ()


@given(st.dictionaries(st.sampled_from(sorted(PROLOG)), st.text(max_size=30)))
def test_any_environment_is_a_job_or_a_slurm_error(changes: dict[str, str]) -> None:
    try:
        job = read_environment({**PROLOG, **changes})
    except SlurmError as error:
        assert str(error).isprintable()
        return
    places = places_of(job, "/spool", "/run")
    assert places.spool.count("/") == 4
    assert places.runtime.count("/") == 3
    assert ".." not in (places.spool + places.runtime).split("/")
