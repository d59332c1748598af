#!/usr/bin/env python3
import argparse
import json
import sys

import yaml

parser = argparse.ArgumentParser(description="Merges and checks configuration files.")
parser.add_argument("result")
parser.add_argument("file", nargs="+")
options = parser.parse_args()

merged = {}
for name in options.file:
    with open(name) as file:
        merged.update(yaml.safe_load(file) or {})
with open(options.result, "w") as out:
    json.dump(merged, out, sort_keys=True)
missing = [key for key in ("name", "port", "owner") if key not in merged]
print("missing: " + ", ".join(missing) if missing else "complete")
sys.exit(1 if missing else 0)
