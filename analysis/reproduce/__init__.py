"""A job's loader rerun on one node, so that hardware, storage and loader can be told apart.

:mod:`.recipe` takes from the store what is needed, :mod:`.write` puts it into a folder beside three
scripts: ``passes.py`` (becomes reproduce.py), ``plain_passes.py`` and ``loader_passes.py``. These
are copied as they are, run in the training's own Python and import nothing of ours.
"""
