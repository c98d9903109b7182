"""BeeGFS: its client's files in /proc, and what its tools say of a file's stripes."""
