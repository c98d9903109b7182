"""Weka's client: /proc/wekafs as text, parsed."""
