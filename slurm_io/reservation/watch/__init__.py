"""The daemon that looks after a reservation between two failures."""
