#!/usr/bin/env python3
import sys
from pathlib import Path

from PIL import Image

SIZE = 64
source, out = Path(sys.argv[1]), Path(sys.argv[2])
small = []
for path in sorted(source.iterdir()):
    with Image.open(path) as picture:
        copy = picture.convert("RGB")
        copy.thumbnail((SIZE, SIZE))
        copy.save(out / f"{path.stem}.png")
        small.append(copy)
        print(f"{path.name}: {picture.width}x{picture.height} -> {copy.width}x{copy.height}")
sheet = Image.new("RGB", (SIZE * len(small), SIZE), "white")
for number, picture in enumerate(small):
    sheet.paste(picture, (number * SIZE, 0))
sheet.save(out / "sheet.png")
