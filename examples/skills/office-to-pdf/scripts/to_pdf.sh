#!/bin/sh
# usage: to_pdf.sh FILE OUT
set -eu
profile=$(mktemp -d)
soffice "-env:UserInstallation=file://$profile" --headless --convert-to pdf --outdir "$2" "$1" > /dev/null 2>&1 || {
    echo "LibreOffice could not convert $1" >&2
    exit 1
}
ls "$2"
