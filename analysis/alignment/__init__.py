"""Do drops of throughput happen when storage is slow? Whether that is more than chance."""
