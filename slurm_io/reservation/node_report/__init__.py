"""What a node says of itself, for those who choose a spare: gathered there, read here."""
