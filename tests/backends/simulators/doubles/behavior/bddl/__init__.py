"""Double of bddl 3.6.0."""
