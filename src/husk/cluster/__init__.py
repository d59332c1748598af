"""cluster: run independent pieces of work here or on the workers of a Dask cluster, and stream what they answer.

It knows nothing of boxes, skills or suites: `husk.map`, `husk skill test`, `husk need` and `husk conform run` bring
their own work. docs/design/018-cluster.md argues the choices.
"""
