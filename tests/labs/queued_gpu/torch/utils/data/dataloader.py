import torch.utils.data._utils.worker  # noqa: F401 - as torch does


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._items = iter(loader.dataset)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)


class DataLoader:
    num_workers = 0
    batch_size = 1

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return _BaseDataLoaderIter(self)
