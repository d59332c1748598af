"""Trees without files on disk: /dev, /dev/pts, /sys, and the base class of all such trees."""
