"""DeepSpeed: the engine's checkpoints with every engine behind them, its loaders, its
collectives."""

from slurm_io.frames.base import LIBRARIES, Library, at

_ENGINES = "deepspeed/runtime/checkpoint_engine"

LIBRARIES.register("deepspeed")(
    Library(
        "0.9 to 0.19",
        (
            at("deepspeed/runtime/dataloader.py", "data_wait", "__next__", "__iter__"),
            at("deepspeed/runtime/engine.py", "ckpt", "save_checkpoint", "_save_checkpoint",
               "_save_zero_checkpoint", "_save_moe_checkpoint", "save_16bit_model",
               "_create_zero_checkpoint_files", "_create_checkpoint_file"),
            at("deepspeed/runtime/engine.py", "ckpt", "_commit_decoupled_checkpoint",
               note="async"),
            *(at(f"{_ENGINES}/{name}_checkpoint_engine.py", "ckpt", "save", "commit", "create")
              for name in ("torch", "fast", "nebula")),
            *(at(f"{_ENGINES}/{name}_checkpoint_engine.py", "ckpt", "save", "commit", "create",
                 "_wait_for_event_with_timeout", note="async")
              for name in ("decoupled", "datastates")),
            at(f"{_ENGINES}/decoupled_checkpoint_engine.py", "writer", "init_decoupled_checkpoint"),
            at("deepspeed/runtime/engine.py", "restore", "load_checkpoint", "_load_checkpoint",
               "_load_zero_checkpoint"),
            at("deepspeed/comm/", "collective"),
        ),
    )
)  # fmt: skip
