"""Simulators, policies and accelerators behind small protocols."""
