"""The in-process hook."""
