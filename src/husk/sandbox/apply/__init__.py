"""Writing a box's changes back to a host directory, wholly or not at all.

Not here: which box it is (`kept/apply_box`).
"""
