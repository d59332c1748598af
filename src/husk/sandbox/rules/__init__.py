"""Rules for names below a mount: hide, deny, protect, allow. docs/mounts.md shows them, docs/design/015 argues them."""
