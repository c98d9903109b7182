"""Hugging Face's Trainer: where it takes batches, saves and resumes."""

from slurm_io.frames.base import LIBRARIES, Library, at

_TRAINER = "transformers/trainer.py"

LIBRARIES.register("hf_trainer")(
    Library(
        "4.30 to 5.24",
        (
            at(_TRAINER, "data_wait", "get_batch_samples"),
            at(_TRAINER, "ckpt", "_save_checkpoint", "save_model", "_save",
               "_save_optimizer_and_scheduler", "_save_rng_state", "_rotate_checkpoints"),
            at("transformers/modeling_utils.py", "ckpt", "save_pretrained"),
            at(_TRAINER, "restore", "_load_from_checkpoint", "_load_optimizer_and_scheduler",
               "_load_rng_state", "_load_best_model"),
        ),
    )
)  # fmt: skip
