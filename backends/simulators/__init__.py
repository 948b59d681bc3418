"""Simulator adapters, one file each. They import only the standard library, numpy and their simulator."""
