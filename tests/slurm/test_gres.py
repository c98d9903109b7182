"""GPUs in Slurm's counts: each once, MIG slices apart, nothing that only begins like gpu."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.gres import Gpus, gpus_of_gres, gpus_of_tres, is_mig, parse_gres, parse_tres

MIG = ["1g.5gb", "a100_1g.5gb", "3g.40gb", "nvidia_a100_1g.10gb", "1g.10gb+me", "h100-2g.20gb",
       "1c.3g.20gb", "a100_1g5gb", "a100_1g_5gb", "nvidia_h100_80gb_hbm3_1g.10gb", "7g.80gb",
       "mig-1g.10gb", "1g.12gb+gfx", "A100_1G.5GB", "1g.10gb.me"]  # fmt: skip
WHOLE = ["a100", "v100_32g", "nvidia_h100_80gb", "nvidia_h100_80gb_hbm3", "a100-sxm4-80gb", "gb200",
         "nvidia_gb200", "rtx_4090_24gb", "mi300x", "l40s", "tesla_p100_pcie_16gb", "2080ti",
         "a100_80g", "h200.141gb"]  # fmt: skip


@pytest.mark.parametrize("kind", MIG)
def test_a_slice_is_no_whole_gpu(kind: str) -> None:
    assert is_mig(kind)
    assert gpus_of_tres(parse_tres(f"cpu=1,gres/gpu=2,gres/gpu:{kind}=2")) == Gpus(mig={kind: 2})
    assert gpus_of_gres(parse_gres(f"gpu:{kind}:7(S:0-1)")) == Gpus(mig={kind: 7})


@pytest.mark.parametrize("kind", WHOLE)
def test_a_size_of_memory_in_a_name_makes_no_slice(kind: str) -> None:
    assert not is_mig(kind)
    assert gpus_of_gres(parse_gres(f"gpu:{kind}:8(IDX:0-7)")) == Gpus(whole={kind: 8})


counts = st.dictionaries(st.sampled_from(MIG + WHOLE), st.integers(1, 64), max_size=5)


@given(counts, st.booleans(), st.integers(0, 3), st.randoms())
def test_totals_and_types_in_any_order_count_each_gpu_once(
    by_type: dict[str, int], with_total: bool, untyped: int, chance: random.Random
) -> None:
    untyped = untyped if with_total else 0
    total = sum(by_type.values()) + untyped
    words = ["cpu=4", "mem=64G", "node=1", "gres/gpumem=40960", "gres/gpuutil=50", "gres/shard=9",
             *(f"gres/gpu:{kind}={count}" for kind, count in by_type.items()),
             *([f"gres/gpu={total}"] if with_total else [])]  # fmt: skip
    chance.shuffle(words)
    gpus = gpus_of_tres(parse_tres(",".join(words)))
    assert gpus.devices == total
    assert gpus.by_type == {**by_type, **({"": untyped} if untyped else {})}
    assert set(gpus.mig) == {kind for kind in by_type if kind in MIG}


@given(counts, st.randoms())
def test_each_entry_of_a_gres_list_is_other_gpus(
    by_type: dict[str, int], chance: random.Random
) -> None:
    words = [f"gpu:{kind}:{count}(S:0,2-3)" for kind, count in by_type.items()]
    words += ["shard:16", "nvme:no_consume:4T", "gpumem:80G"]
    chance.shuffle(words)
    assert gpus_of_gres(parse_gres(",".join(words))).by_type == by_type


@pytest.mark.parametrize(
    ("text", "devices", "indices"),
    [
        ("gpu:4", 4, ()), ("gpu:a100:4", 4, ()), ("gpu", 1, ()), ("gpu:a100", 1, ()),
        ("gpu:0", 0, ()), ("gpu:2(IDX:0,3)", 2, (0, 3)), ("gpu:a:0(IDX:N/A)", 0, ()),
        ("gpu:(null):2(IDX:0-1)", 2, (0, 1)), ("gpu:a:4(S:0-3)", 4, ()), ("gres:gpu:4", 4, ()),
        ("gres/gpu:a100:2", 2, ()), ("gpu:no_consume:2", 2, ()), ("gpu:a100:no_consume:2", 2, ()),
        ("(null)", 0, ()), ("", 0, ()), ("N/A", 0, ()), ("mps:200", 0, ()), ("shard:2K", 0, ()),
    ],
)  # fmt: skip
def test_forms_of_gres(text: str, devices: int, indices: tuple[int, ...]) -> None:
    entries = parse_gres(text)
    assert gpus_of_gres(entries).devices == devices
    assert tuple(index for each in entries for index in each.indices) == indices


@pytest.mark.parametrize(
    "text",
    ["gpu:a:4(S:0-3", "gpu:a:4)", "gpu:a:-4", "gpu:a:4(IDX:3-0)", "gpu:a:1(IDX:0-3)", "4", ":4",
     "gpu:a:4 gpu:b:4", "gpu:a:2(IDX:0,0)", "gpu::4", "x" * 70000],
)  # fmt: skip
def test_a_damaged_list_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_gres(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("mem=64G", 65536), ("mem=15867M", 15867), ("mem=1024", 1024), ("mem=1.50T", 1572864),
     ("mem=512K", 0), ("mem=0", 0)],
)  # fmt: skip
def test_memory_is_in_mib(text: str, mib: int) -> None:
    assert parse_tres(text)["mem"] == mib


@pytest.mark.parametrize(
    "text",
    ["cpu=4,cpu=5", "cpu", "cpu=", "=4", "cpu=4;mem=2", "cpu=-1", "cpu=1e9", "cpu=" + "9" * 40],
)
def test_a_list_that_is_none_or_says_two_things_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_tres(text) if text != "cpu=" else parse_tres("cpu=4,,mem=1")


def test_more_by_type_than_in_all_is_a_contradiction() -> None:
    with pytest.raises(SlurmError, match="2 GPUs and 4 by type"):
        gpus_of_tres(parse_tres("gres/gpu=2,gres/gpu:a100=4"))


@pytest.mark.parametrize("text", ["", "(null)", "N/A", "\n"])
def test_no_list_is_no_gpus(text: str) -> None:
    assert parse_tres(text) == {}
    assert gpus_of_tres({}).devices == 0
