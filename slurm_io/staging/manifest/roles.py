"""Which files of a dataset are indexes or metadata, by their names.

A damaged index or tokenizer spoils a whole run where a damaged shard spoils some samples, so both
are always verified in full. Standard library only.
"""

from __future__ import annotations

from slurm_io.staging.manifest.model import Role

_INDEX_NAMES = frozenset({"index.json", "__index__.json", "shard_index.json", "wids.json"})
_INDEX_SUFFIXES = (".idx", ".index", ".index.json")
_METADATA_NAMES = frozenset(
    {
        "state.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
        "dataset.json", "metadata.json", "metadata.jsonl", "config.json",
        "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "tokenizer.tiktoken",
        "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
        "spiece.model", "sentencepiece.bpe.model",
    }
)  # fmt: skip


def role_of(path: str) -> Role:
    """The role of a file, by the last component of its path; case does not count."""
    name = path.rpartition("/")[2].lower()
    if name in _INDEX_NAMES or name.endswith(_INDEX_SUFFIXES):
        return "index"
    return "metadata" if name in _METADATA_NAMES else "data"
