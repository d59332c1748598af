"""conform/cluster: run work on the workers of a Dask cluster."""
