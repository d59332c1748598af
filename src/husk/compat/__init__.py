"""compat: what a program needs from Linux, what each runtime offers, and whether the two fit.

Here: surfaces (what a runtime offers), censuses (what a program asked for), and what is learned from them. Not here:
anything that decides for a box; a box never asks this layer, except to wear a runtime's surface with `husk run --as`.
"""
