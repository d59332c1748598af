#!/usr/bin/env python3
import json
import os
import re
import subprocess
import sys

name, out = sys.argv[1:3]
info = subprocess.run(["pdfinfo", name], capture_output=True, text=True, check=True).stdout
text = subprocess.run(["pdftotext", "-layout", name, "-"], capture_output=True, text=True, check=True).stdout
subprocess.run(["pdftoppm", "-png", "-r", "36", "-singlefile", name, os.path.join(out, "page")], check=True)
print(json.dumps({"pages": int(re.search(r"Pages:\s+(\d+)", info)[1]), "text": text.strip()}))
