"""Stage, edge and workflow declarations, the rules they must obey, and how they compile to a plan."""
