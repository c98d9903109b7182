"""Ways to get bytes: one engine per file."""
