#!/bin/bash
# usage: sample.sh FILE: a git bundle with four commits, always the same
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2025-01-01T00:00:00Z' GIT_COMMITTER_DATE='2025-01-01T00:00:00Z'
git init -q -b main "$work"
cd "$work"
for subject in "add: a table" "fix: the sum" "tidy" "add: colours"; do
    echo "$subject" >> file
    git add file
    git commit -q -m "$subject"
done
git bundle create -q "$1" main HEAD
git log -1 --format=%H
