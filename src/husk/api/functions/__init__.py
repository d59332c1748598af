"""Python functions that run in boxes: as text, with plain values, one by one, many at once, or through an executor."""
