"""sandbox: the lasting hold a kept box has on the image it was started from. See husk.store.roots.

The box's directory says first which root it is going to have (`root`), so that a box that never came to be takes none.
"""

from __future__ import annotations

import os

from husk.sandbox.errors import HuskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.sandbox.kept.kept_boxes import Kept
    from husk.sandbox.kept.record import Record


def hold(kept: Kept, record: Record, origin: str = "") -> None:
    """`origin`: id of the box that `record` is a fork of."""
    if not record.manifests:
        return
    from husk.store import Store, StoreError
    from husk.store.roots import add, share

    with open(os.path.join(kept.path(record.name), "root"), "w") as file:
        file.write(f"{record.id} {record.store}\n")
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


def forget(path: str) -> None:
    """The box whose directory is `path` needs nothing any more."""
    try:
        with open(os.path.join(path, "root")) as file:
            name, _, place = file.read().rstrip("\n").partition(" ")
    except FileNotFoundError:
        return
    if len(name) == 32 and place:
        from husk.store.roots import remove

        remove(place, name)
