"""Hugging Face datasets: mapped Arrow tables, and streaming with its retries."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("hf_datasets")(
    Library(
        "2.10 to 5.2",
        (
            at("datasets/arrow_dataset.py", "fetch", "__getitems__", "__getitem__", "_getitem"),
            at("datasets/iterable_dataset.py", "fetch", "_iter_pytorch", "__iter__"),
            at("datasets/formatting/formatting.py", "mapped", "query_table", "_query_table",
               "_query_table_with_indices_mapping", note="memmap"),
            at("datasets/table.py", "mapped", "fast_slice", "fast_gather", "slice",
               note="memmap"),
            # Turning a mapped table into Python objects reads its pages.
            at("datasets/formatting/", "mapped", note="memmap"),
            at("datasets/features/", "decoding"),
            at("datasets/iterable_dataset.py", "reading", "_iter_arrow"),
            at("datasets/packaged_modules/", "reading"),
            at("datasets/utils/file_utils.py", "reading"),
            at("datasets/download/", "reading"),
        ),
    )
)  # fmt: skip
