"""conform/judge: from raw outcomes to verdicts: the native baseline, flaky cases, expected failures."""
