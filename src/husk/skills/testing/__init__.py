"""skills/testing: test cases of skills: reading them, running them in boxes and natively, and their verdicts."""
