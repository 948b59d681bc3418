"""Double of ManiSkill 3.0.1."""
