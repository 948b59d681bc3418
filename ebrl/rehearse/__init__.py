"""Rehearsal: the decision objects of a run, driven in virtual time on true stage costs. No Dask, no clock."""
