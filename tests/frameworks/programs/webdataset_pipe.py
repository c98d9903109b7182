"""WebDataset over `pipe:`: each shard comes through a child process, as by curl or aws."""

from __future__ import annotations

import webdataset_files

if __name__ == "__main__":
    webdataset_files.main("pipe:cat {folder}/{{00..07}}.tar")
