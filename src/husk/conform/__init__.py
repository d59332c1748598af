"""conform: how much of Linux a runtime does, measured with real test programs: suites, runs, history, and reports."""
