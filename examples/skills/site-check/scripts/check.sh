#!/bin/bash
# usage: check.sh DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ready=$(mktemp -u)
mkfifo "$ready"
python3 "$here/serve.py" "$1" "$ready" > /dev/null 2>&1 &
read -r port < "$ready"
exec python3 "$here/crawl.py" "http://127.0.0.1:$port/index.html"
