#!/bin/bash
# usage: changelog.sh BUNDLE OUT
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q "$1" "$work/history"
{
    echo "# Changes"
    for kind in add fix drop; do
        found=$(git -C "$work/history" log --format=%s | sed -n "s/^$kind: */- /p")
        if [ -n "$found" ]; then
            printf '\n## %s\n\n%s\n' "$kind" "$found"
        fi
    done
} > "$2/CHANGELOG.md"
git -C "$work/history" rev-list --count HEAD
