"""Measured stage profiles."""
