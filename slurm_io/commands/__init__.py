"""One click command per file: arguments, call, print, exit code; no logic."""
