"""Interpreters of their own for simulators, whose pins exclude one another: made by `ebrl env`, used by runs."""
