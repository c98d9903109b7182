"""torch.save and torch.load, also below the trainers that call them."""

from slurm_io.frames.base import LIBRARIES, Library, at

_FILE = "torch/serialization.py"

LIBRARIES.register("torch_save")(
    Library(
        "1.6 to 2.14",
        (
            at(_FILE, "ckpt", "save", "_save", "_legacy_save"),
            at(_FILE, "restore", "load", "_load", "_legacy_load", "load_tensor"),
        ),
    )
)
