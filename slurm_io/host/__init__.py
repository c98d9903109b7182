"""The only place that opens /proc and /sys or starts a process; the root is injectable."""
