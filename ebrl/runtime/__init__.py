"""The engine at work: Dask cluster, driver, stage engines, channels, environment processes."""
