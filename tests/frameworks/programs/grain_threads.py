"""Grain without worker processes: a pool of threads in the training process reads."""

from __future__ import annotations

import grain_loader

if __name__ == "__main__":
    grain_loader.main()
