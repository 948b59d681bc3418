"""How stages share resources. Pure: no Dask, no torch, no clock."""
