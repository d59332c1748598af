#!/bin/sh
# usage: count.sh DIR [N]
set -eu
dir=$1
most=${2:-5}
cat "$dir"/*.txt | tr -cs 'A-Za-z' '\n' | tr 'A-Z' 'a-z' | LC_ALL=C sort | uniq -c |
    LC_ALL=C sort -k1,1nr -k2,2 | awk 'NF == 2 { print $2 "\t" $1 }' | sed "${most}q"
