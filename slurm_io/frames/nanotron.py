"""nanotron: its loader wrapper, its mapped token files, and its safetensors checkpoints."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("nanotron")(
    Library(
        "0.4 and the repository of 2026-04",
        (
            at("nanotron/data/dataloader.py", "data_wait", "sanity_check_dataloader"),
            at("nanotron/dataloader.py", "data_wait", "sanity_check_dataloader"),
            at("nanotron/data/nanoset.py", "mapped", "__getitem__", note="memmap"),
            at("nanotron/data/tokenized_bytes.py", "mapped", "__getitem__", note="memmap"),
            at("nanotron/data/tokenized_bytes.py", "reading", "_get_next_from_stream",
               "_stream_file"),
            at("nanotron/data/nemo_dataset/blendable_dataset.py", "mapped", "__getitem__",
               note="memmap"),
            at("datatrove/utils/dataset.py", "mapped", "__getitem__", "_get_item",
               note="memmap"),
            at("nanotron/data/clm_collator.py", "collate", "__call__"),
            at("nanotron/dataloader.py", "collate", "__call__"),
            at("nanotron/trainer.py", "ckpt", "save_checkpoint"),
            at("nanotron/serialize/main.py", "ckpt", "save"),
            at("nanotron/serialize/weights.py", "ckpt", "save_weights"),
            at("nanotron/serialize/optimizer.py", "ckpt", "save_optimizer"),
            at("nanotron/serialize/weights.py", "restore", "load_weights"),
            at("nanotron/serialize/optimizer.py", "restore", "load_optimizer"),
        ),
    )
)  # fmt: skip
