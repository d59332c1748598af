"""conform/builders: build test suites from checkouts that the user has, with the system's compiler and ninja."""
