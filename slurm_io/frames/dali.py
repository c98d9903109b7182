"""NVIDIA DALI: the wait for its pipeline. Its readers and decoders are native and not seen; their
decoding may keep the GPU busy while training starves."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("dali")(
    Library(
        "1.0 to 2.4",
        (
            at("nvidia/dali/plugin/pytorch/__init__.py", "data_wait", "__next__"),
            at("nvidia/dali/plugin/pytorch/__init__.py", "data_wait", "__init__", note="epoch"),
            at("nvidia/dali/plugin/pytorch.py", "data_wait", "__next__"),
            at("nvidia/dali/plugin/jax/iterator.py", "data_wait", "_next_impl", "__next__"),
            at("nvidia/dali/plugin/base_iterator.py", "data_wait", "_get_outputs", "__next__",
               "next"),
            at("nvidia/dali/pipeline.py", "data_wait", "share_outputs", "_share_outputs",
               "outputs", "run", "schedule_run"),
            at("nvidia/dali/pipeline.py", "data_wait", "build", note="epoch"),
        ),
    )
)  # fmt: skip
