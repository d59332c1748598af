"""compat/compare: run one command in two places, and name the first thing that differs.

Here: running it and keeping what it did (run_under), what is not the place's doing because it varies natively too
(align_lines), and what then differs (divergence). Not here: what a place offers, which the profiles and the probe say.
"""
