"""A spare takes the place of a bad node: steps, journal, lock, way back."""
