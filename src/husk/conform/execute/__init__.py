"""conform/execute: run units with bounds of time and output, many at once, and go on where a killed run stopped."""
