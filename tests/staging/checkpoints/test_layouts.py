"""Layouts of DeepSpeed, Megatron, Hugging Face and safetensors, small and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.staging.checkpoints.made import archive, cut, grow_old, only_save, saves_in, shard

Spoil = Callable[[Path], object]


def deepspeed(root: Path, tag: str = "global_step500", ranks: int = 4) -> Path:
    folder = root / tag
    archive(folder / "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        archive(folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    (root / "latest").write_text(tag)
    return folder


def megatron_ranks(root: Path) -> Path:
    folder = root / "iter_0000100"
    for tensor in range(2):
        for pipeline in range(2):
            archive(folder / f"mp_rank_{tensor:02d}_{pipeline:03d}" / "model_optim_rng.pt")
    (root / "latest_checkpointed_iteration.txt").write_text("100")
    return folder


def trainer(root: Path) -> Path:
    folder = root / "checkpoint-500"
    weights = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    for tensor, name in weights.items():
        shard(folder / name, {tensor: 64})
    index = {"metadata": {"total_size": 128}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"):
        archive(folder / name)
    archive(folder / "training_args.bin")
    (folder / "trainer_state.json").write_text('{"global_step": 500}')
    return folder


LAYOUTS = {"deepspeed": deepspeed, "megatron": megatron_ranks, "huggingface": trainer}


@pytest.mark.parametrize("form", LAYOUTS)
def test_whole(tmp_path: Path, form: str) -> None:
    LAYOUTS[form](tmp_path)
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"], told["problems"]) == (form, "whole", [])
    assert told["step"] in (100, 500)


def remove(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def tear(name: str) -> Spoil:
    return lambda folder: cut(folder / name, 15)


SPOILT = [
    ("deepspeed", remove("zero_pp_rank_2_mp_rank_00_optim_states.pt"), "unfinished", "1 of 4"),
    ("deepspeed", tear("zero_pp_rank_3_mp_rank_00_optim_states.pt"), "broken", "cut short"),
    ("deepspeed", tear("mp_rank_00_model_states.pt"), "broken", "cut short"),
    ("megatron", remove("mp_rank_01_001/model_optim_rng.pt"), "unfinished", "3 folders of ranks"),
    ("megatron", tear("mp_rank_01_001/model_optim_rng.pt"), "broken", "cut short"),
    ("huggingface", tear("model-00002-of-00002.safetensors"), "broken", "its header says"),
    ("huggingface", remove("model-00002-of-00002.safetensors"), "broken", "names it"),
    ("huggingface", tear("optimizer.pt"), "broken", "cut short"),
    ("huggingface", tear("trainer_state.json"), "broken", "no JSON object"),
    ("huggingface", remove("trainer_state.json"), "unfinished", "near the end"),
    ("huggingface", remove("rng_state_0.pth"), "unfinished", "1 of 2 missing"),
]


@pytest.mark.parametrize(("form", "spoil", "state", "text"), SPOILT)
def test_spoilt(tmp_path: Path, form: str, spoil: Spoil, state: str, text: str) -> None:
    folder = LAYOUTS[form](tmp_path)
    spoil(folder)
    told = only_save(grow_old(tmp_path))
    assert told["state"] == state
    assert any(text in one["text"] for one in told["problems"])


def test_an_optimizer_file_of_another_size_is_a_note(tmp_path: Path) -> None:
    folder = deepspeed(tmp_path)
    archive(folder / "zero_pp_rank_1_mp_rank_00_optim_states.pt", b"y" * 5000)
    told = only_save(grow_old(tmp_path))
    assert told["state"] == "whole"
    assert "differ in size" in told["notes"][0]


def test_megatron_folders_of_two_layouts(tmp_path: Path) -> None:
    folder = megatron_ranks(tmp_path)
    archive(folder / "mp_rank_00" / "model_optim_rng.pt")
    assert "two layouts" in only_save(grow_old(tmp_path))["problems"][0]["text"]


def test_megatron_distributed_without_its_common_part(tmp_path: Path) -> None:
    folder = tmp_path / "iter_0000200"
    folder.mkdir()
    (folder / "__0_0.distcp").write_bytes(b"x" * 100)
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"]) == ("megatron", "unfinished")
    assert {one["file"] for one in told["problems"]} == {".metadata", "common.pt"}


def test_safetensors_by_its_header(tmp_path: Path) -> None:
    shard(tmp_path / "a-1.safetensors", {"w": 4096})
    cut(shard(tmp_path / "a-2.safetensors", {"w": 4096}), 10)
    (tmp_path / "a-3.safetensors").write_bytes(b"\xff" * 100)
    states = {one["path"][-13:]: one["state"] for one in saves_in(grow_old(tmp_path))}
    assert states == {
        "1.safetensors": "whole", "2.safetensors": "broken", "3.safetensors": "broken",
    }  # fmt: skip


def test_a_huge_header_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a-1.safetensors").open("wb") as file:
        file.write((90 * 10**6).to_bytes(8, "little") + b"{")
        file.truncate(91 * 10**6)
    told = only_save(grow_old(tmp_path))
    assert told["state"] == "unknown"
    assert "too many for a look" in told["notes"][0]


def test_a_folder_for_each_step(tmp_path: Path) -> None:
    archive(tmp_path / "step-10" / "model.pt")
    cut(archive(tmp_path / "step-20" / "optim.pt"), 30)
    told = {one["step"]: one for one in saves_in(grow_old(tmp_path))}
    assert told[10]["state"] == "whole"
    assert told[20]["state"] == "broken"
    assert told[20]["format"] == "step_folder"
    assert told[20]["problems"][0]["file"] == "optim.pt"


def test_shards_of_an_index_without_a_trainer(tmp_path: Path) -> None:
    folder = trainer(tmp_path)
    for name in ("trainer_state.json", "training_args.bin", "optimizer.pt", "scheduler.pt"):
        (folder / name).unlink()
    folder = folder.rename(tmp_path / "step-500")
    assert only_save(grow_old(tmp_path))["state"] == "whole"
    (folder / "model-00001-of-00002.safetensors").unlink()
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"]) == ("step_folder", "broken")
    assert "names it" in told["problems"][0]["text"]


def test_a_trainers_model_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """FSDP's: without its end it is not finished, whatever else is there."""
    folder = trainer(tmp_path)
    for path in folder.glob("model*"):
        path.unlink()
    (folder / "pytorch_model_fsdp_0").mkdir()
    (folder / "pytorch_model_fsdp_0" / "__0_0.distcp").write_bytes(b"x")
    told = only_save(grow_old(tmp_path))
    assert (told["format"], told["state"]) == ("huggingface", "unfinished")
    assert told["problems"][0]["file"] == "pytorch_model_fsdp_0/.metadata"


def test_empty_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    folder = deepspeed(tmp_path)
    (folder / "tokens.bin").touch()
    (folder / "zeros.tar").write_bytes(bytes(5000))
    assert only_save(grow_old(tmp_path))["state"] == "whole"
