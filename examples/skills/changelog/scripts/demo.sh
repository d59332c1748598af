#!/bin/bash
# usage: demo.sh OUT: makes the sample history, then its changelog
set -eu
here=$(dirname "$0")
bash "$here/sample.sh" "$1/sample.bundle"
bash "$here/changelog.sh" "$1/sample.bundle" "$1"
