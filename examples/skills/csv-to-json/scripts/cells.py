"""What a cell of a table means."""


def value(cell: str) -> object:
    text = cell.strip()
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
