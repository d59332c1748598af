"""cli: the resident husk, which does runs of `husk run` without Python's start and husk's imports.

`zygote` forks a worker for each run; `request` reads what the client (native/client) sends; `same_caller` judges who
may be served; `worker` does the run; `resident_place` finds the socket. The design is docs/design/023-resident.md.
"""
