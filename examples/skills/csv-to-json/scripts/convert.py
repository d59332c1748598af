#!/usr/bin/env python3
"""Turns a CSV table into JSON."""

import argparse
import csv
import json
import os
import sys
import tempfile

from cells import value


def main() -> int:
    parser = argparse.ArgumentParser(description="Turns a CSV table into JSON.")
    parser.add_argument("table")
    parser.add_argument("result")
    parser.add_argument("--delimiter", default=",")
    options = parser.parse_args()
    rows, odd = [], 0
    with open(options.table, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=options.delimiter)
        head = next(reader)
        for row in reader:
            if len(row) != len(head):
                print(f"line {reader.line_num}: {len(row)} cells, not {len(head)}", file=sys.stderr)
                odd = 1
            else:
                rows.append({name: value(cell) for name, cell in zip(head, row, strict=True)})
    # Written whole or not at all, as one does where somebody else may be reading.
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(options.result) or ".", delete=False) as out:
        json.dump(rows, out, indent=1, sort_keys=True)
        out.write("\n")
    os.replace(out.name, options.result)
    print(f"{len(rows)} rows")
    return odd


if __name__ == "__main__":
    sys.exit(main())
