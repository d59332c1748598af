"""vfs: the inode numbers a layered tree shows for lower files."""

from __future__ import annotations


class InodeNumbers:
    """The host's own number, unless a second host device or a huge number could collide."""

    __slots__ = ("_devices",)

    def __init__(self) -> None:
        self._devices: dict[int, int] = {}  # host device -> in which order it was met

    def shown(self, dev: int, ino: int) -> int:
        index = self._devices.get(dev)
        if index is None:
            index = self._devices[dev] = len(self._devices)
        if index == 0 and ino < 1 << 32:
            return ino
        return (ino & ((1 << 47) - 1)) | ((index + 1) << 47)

    def is_first_device(self, dev: int) -> bool:
        """Are this device's inode numbers shown as they are?"""
        return self._devices.setdefault(dev, len(self._devices)) == 0
