#!/bin/bash
# usage: convert.sh NOTE.md OUT
set -eu
for kind in html docx; do
    pandoc "$1" -o "$2/note.$kind"
done
pandoc "$1" -t plain -o "$2/note.txt"
pandoc "$2/note.docx" -t plain | cmp - "$2/note.txt" && echo "the Word file reads the same"
