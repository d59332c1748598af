#!/bin/bash
# usage: shot.sh PAGE.html OUT
set -eu
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
profile=$(mktemp -d)
flags=(--headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" --window-size=320,200)
"$browser" "${flags[@]}" --screenshot="$2/page.png" "file://$1" 2> "$profile/log" || { cat "$profile/log" >&2; exit 1; }
"$browser" "${flags[@]}" --dump-dom "file://$1" > "$2/page.html" 2>> "$profile/log" || { cat "$profile/log" >&2; exit 1; }
