"""tf.data: the wait for its iterator. Its readers are native; Python callbacks come back."""

from slurm_io.frames.base import LIBRARIES, Library, at

_OPS = "tensorflow/python/ops"

LIBRARIES.register("tf_data")(
    Library(
        "2.8 to 2.21",
        (
            at("tensorflow/python/data/ops/iterator_ops.py", "data_wait", "__next__",
               "_next_internal", "get_next"),
            at(f"{_OPS}/gen_dataset_ops.py", "data_wait", "iterator_get_next",
               "iterator_get_next_sync", "iterator_get_next_eager_fallback"),
            at("tensorflow/python/data/ops/dataset_ops.py", "data_wait", "__iter__",
               note="epoch"),
            at("tensorflow/python/data/ops/iterator_ops.py", "data_wait", "__init__",
               "_create_iterator", note="epoch"),
            at(f"{_OPS}/script_ops.py", "helper", "__call__"),
        ),
    )
)  # fmt: skip
