"""Hugging Face datasets on disk: ``state.json``, ``dataset_dict.json``, ``dataset_info.json``.

Samples (``save_to_disk``; and the cache's, where the shards' names follow from the counts)::

    {"_data_files": [{"filename": "data-00000-of-00002.arrow"}, …], "_split": "train"}
    {"splits": ["train", "test"]}
    {"dataset_name": "c4", "splits": {"train": {"name": "train", "num_bytes": 829,
     "num_examples": 9, "shard_lengths": [5, 4]}}, "download_checksums": null}

None of them says how long a file is: ``num_bytes`` counts rows in memory, ``download_checksums``
the files the data was made from. So sizes come from a local copy or stay unknown.
"""

from __future__ import annotations

import os
import re

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList
from slurm_io.staging.manifest.foreign_json import Fields, parse_json
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions

_STATE, _INFO, _DICT = "state.json", "dataset_info.json", "dataset_dict.json"
_MAX_SHARDS = 1_000_000
_NAME = re.compile(r"[\w.-]{1,200}")


@IMPORTERS.register("huggingface")
class HuggingFace:
    """A folder of a saved or cached dataset, or one of its JSON files."""

    title = "huggingface: state.json, dataset_dict.json or dataset_info.json"

    def recognise(self, source: Source) -> bool:
        """By the names of a folder, by the keys of a file."""
        if source.is_folder:
            return bool({_STATE, _DICT, _INFO} & source.names)
        if source.has_keys("_data_files") or source.name == _DICT:
            return True
        return source.has_keys("splits") and (
            source.has_keys("features") or source.has_keys("download_checksums")
        )

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Every file the JSON names, and the JSON files themselves."""
        reading = _Reading(source, options)
        name = source.name or _main_name(source)
        document = reading.document(name)
        if "_data_files" in document:
            reading.add_state(name, "")
        elif isinstance(document.raw("splits"), list):
            reading.add_splits(document, name)
        else:
            reading.add_info(name)
        return Imported(reading.entries.entries(shown(name)), tuple(reading.notes), (source.path,))


class _Reading:
    """What is gathered from the JSON files of one dataset."""

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source = source
        self.entries = EntryList(options.prefix)
        self.notes: list[str] = []

    def document(self, path: str) -> Fields:
        """One JSON file of the dataset."""
        return Fields(parse_json(self._content(path), shown(path)), shown(path))

    def add_splits(self, document: Fields, path: str) -> None:
        """A dataset_dict.json: one folder a split."""
        self._add_json(path)
        for split in document.list_of("splits"):
            if not isinstance(split, str) or not _NAME.fullmatch(split) or split in (".", ".."):
                raise ManifestError(f"{shown(path)}: {split!a:.60} cannot be a split's folder")
            self.add_state(f"{split}/{_STATE}", split)

    def add_state(self, path: str, folder: str) -> None:
        """A state.json and the Arrow files it names."""
        state = self.document(path)
        self._add_json(path)
        for file in state.objects("_data_files"):
            name = file.text("filename")
            self.entries.add(_below(folder, name), file.where, role="data")
        info = _below(folder, _INFO)
        if self._source.holds(info):
            self._add_json(info)
            self._note_info(self.document(info))

    def add_info(self, path: str) -> None:
        """A dataset_info.json alone: the cache names its Arrow files after dataset and split."""
        info = self.document(path)
        splits = info.optional_object("splits")
        if splits is None:
            raise ManifestError(f"{shown(path)}: names no splits, so no files")
        self._add_json(path)
        for key in splits.names():
            split = splits.optional_object(key)
            if split is not None:
                self._add_split(info, split, key)
        self._note_info(info)
        self.notes.append(
            "file names are those of the cache (NAME-SPLIT.arrow): dataset_info.json states none"
        )

    def _add_split(self, info: Fields, split: Fields, key: str) -> None:
        dataset = split.optional_text("dataset_name") or info.optional_text("dataset_name")
        dataset = dataset or info.optional_text("builder_name")
        name = split.optional_text("name") or key
        if dataset is None:
            raise ManifestError(f"{split.where}: no dataset_name, so the files cannot be named")
        count = len(split.list_of("shard_lengths")) or 1
        if count > _MAX_SHARDS:
            raise ManifestError(f"{split.where}.shard_lengths: over {_MAX_SHARDS} shards")
        for shard in range(count):
            part = f"-{shard:05d}-of-{count:05d}" if count > 1 else ""
            self.entries.add(f"{dataset}-{name}{part}.arrow", split.where, role="data")

    def _note_info(self, info: Fields) -> None:
        splits = info.optional_object("splits")
        for key in splits.names() if splits else ():
            split = splits.optional_object(key) if splits else None
            if split is not None:
                rows, size = split.optional_count("num_examples"), split.optional_count("num_bytes")
                self.notes.append(f"split {key!a:.60}: {rows} rows, {size} bytes in memory")
        downloads = info.optional_object("download_checksums")
        if downloads is not None and downloads.names():
            self.notes.append(
                f"{len(downloads.names())} download_checksums are of the downloads, not these files"
            )

    def _add_json(self, path: str) -> None:
        self.entries.add_own(path, self._content(path), "metadata", shown(path))

    def _content(self, path: str) -> bytes:
        if path == self._source.name:
            return self._source.content
        content = self._source.read_below(path)
        if content is None:
            raise ManifestError(f"{shown(path)}: is named but missing; import needs it beside")
        return content


def _main_name(source: Source) -> str:
    found = [name for name in (_DICT, _STATE, _INFO) if name in source.names]
    if not found:
        raise ManifestError(f"{source.shown}: holds none of {_DICT}, {_STATE}, {_INFO}")
    return found[0]


def _below(folder: str, name: str) -> str:
    return os.path.join(folder, name) if folder else name
