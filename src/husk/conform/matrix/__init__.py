"""conform/matrix: the coverage matrix: each call, what exercises it, and how much it matters."""
