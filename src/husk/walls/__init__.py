"""Everything that confines a guest: the seccomp filter, Landlock, namespaces, host ids, the plan for husk-init.

Not here: deciding which walls a box gets (`sandbox`), and raising them (`native/init`).
"""
