"""What frames on a stack mean: one file a library, and the judge that turns stacks into states."""
