"""sandbox: the root in the store that keeps a kept box's image from being collected. See husk.store.roots.

The box's directory names the root first (file `root`), so that a box that was never finished leaves none behind.
"""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.kept.record import Record


def hold_image(box_dir: str, record: Record, origin: str = "") -> None:
    """`box_dir`: the directory of the kept box. `origin`: id of the box that `record` is a fork of."""
    if not record.manifests:
        return
    from husk.store import Store, StoreError
    from husk.store.layout import write_file
    from husk.store.roots import add, share

    write_file(os.path.join(box_dir, "root"), f"{record.id} {record.store}\n".encode())
    try:
        store = Store.open(record.store)
        if not origin or not share(store, origin, record.id):
            add(store, record.id, record.manifests)
    except StoreError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise HuskError(
            f"the store at {record.store} cannot note that a box is kept ({error.strerror}); run it without --keep, or "
            "make the store writable."
        ) from None


def forget_image(box_dir: str) -> None:
    """The box is gone, so the store need not keep its image."""
    try:
        with open(os.path.join(box_dir, "root")) as file:
            name, _, place = file.read().rstrip("\n").partition(" ")
    except FileNotFoundError:
        return
    if len(name) == 32 and place:
        from husk.store.roots import remove

        remove(place, name)
