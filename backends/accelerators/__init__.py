"""How quotas on accelerators are enforced."""
