"""JuiceFS: the counters in a mount's .stats file."""
