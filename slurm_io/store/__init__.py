"""The job store: schema, streams, sealing, recovery, delivery, reading."""
