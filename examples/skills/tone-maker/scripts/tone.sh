#!/bin/sh
# usage: tone.sh HERTZ SECONDS OUT
set -eu
ffmpeg -nostdin -loglevel error -f lavfi -i "sine=frequency=$1:duration=$2" "$3/tone.wav"
ffmpeg -nostdin -loglevel error -i "$3/tone.wav" "$3/tone.flac"
ffprobe -loglevel error -show_entries format=duration -of default=noprint_wrappers=1:nokey=1 "$3/tone.flac"
