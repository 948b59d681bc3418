"""Ready-made workflows: `ebrl run workflows/lift_ppo.py`."""
