"""Python and npm packages for a skill: where they come from, and layers that pip and npm fill inside a box.

Not here: which packages a script needs (`describe`), and putting them into its box
(`provide_packages`).
"""
