"""WebDataset without any torch loader: the training thread reads the tar files itself."""

from __future__ import annotations

import tiny
import torch
import truth
import webdataset as wds
import webdataset_files


def main():
    options = truth.read_arguments()
    if options.prepare:
        webdataset_files.prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    samples = wds.WebDataset(f"{options.data}/{{00..07}}.tar", shardshuffle=False)
    loader = samples.map(webdataset_files.decode).batched(truth.BATCH, collation_fn=torch.stack)
    tiny.train(watch, loader, options.saves)
    watch.write()


if __name__ == "__main__":
    main()
