"""conform/suites: the kinds of suites: which units a suite has, and what the output of each means."""
