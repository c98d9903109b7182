"""Is a checkpoint on disk whole? By metadata only: names, sizes, headers, ends of archives."""
