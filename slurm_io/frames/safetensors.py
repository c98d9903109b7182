"""safetensors: writes and reads are native, below these functions."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("safetensors")(
    Library(
        "0.3 to 0.8",
        (
            at("safetensors/torch.py", "ckpt", "save_file", "save_model", "save",
               "_to_ndarray", "_evaluate_tensors_for_save", "_flatten", "_flatten_as_ptr"),
            at("safetensors/numpy.py", "ckpt", "save_file", "save"),
            at("safetensors/torch.py", "restore", "load_file", "load_model", "load"),
            at("safetensors/numpy.py", "restore", "load_file", "load"),
        ),
    )
)  # fmt: skip
