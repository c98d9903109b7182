"""Two jobs side by side: what changed, and which differences their own noise cannot explain."""
