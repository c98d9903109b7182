"""Lightning: its fetchers and its checkpoints, under both of its package names."""

from slurm_io.frames.base import LIBRARIES, Library, Rule, at


def _rules(package: str, fabric: str) -> tuple[Rule, ...]:
    return (
        at(f"{package}/loops/fetchers.py", "data_wait", "__next__"),
        at(f"{package}/loops/fetchers.py", "data_wait", "__iter__", note="epoch"),
        at(f"{package}/utilities/combined_loader.py", "data_wait", "__next__"),
        at(f"{package}/utilities/combined_loader.py", "data_wait", "__iter__", note="epoch"),
        at(f"{package}/callbacks/model_checkpoint.py", "ckpt", "_save_checkpoint",
           "_save_topk_checkpoint", "_save_last_checkpoint", "_remove_checkpoint"),
        at(f"{package}/trainer/trainer.py", "ckpt", "save_checkpoint"),
        at(f"{package}/plugins/io/async_plugin.py", "ckpt", "save_checkpoint", "teardown",
           note="async"),
        at(f"{package}/plugins/io/async_plugin.py", "writer", "_save_checkpoint"),
        at(f"{fabric}/plugins/io/torch_io.py", "ckpt", "save_checkpoint"),
        at(f"{fabric}/utilities/cloud_io.py", "ckpt", "_atomic_save"),
        at(f"{package}/trainer/connectors/checkpoint_connector.py", "restore", "restore",
           "_restore_modules_and_callbacks", "restore_training_state", "resume_start"),
        at(f"{package}/utilities/memory.py", "gc", "garbage_collection_cuda"),
    )  # fmt: skip


LIBRARIES.register("lightning")(
    Library(
        "2.0 to 2.6",
        (
            *_rules("lightning/pytorch", "lightning/fabric"),
            *_rules("pytorch_lightning", "lightning_fabric"),
        ),
    )
)
