"""What a run shows and keeps: events, metrics, progress, run directory."""
