#!/bin/dash
# pipelines.sh COUNT: three-stage pipelines, one after the other; dash has a SIGCHLD handler without SA_RESTART.
i=0
bad=0
while [ "$i" -lt "$1" ]; do
    out=$(printf '%s\n' "$i" "b$i" "c$i" | sort -r | head -n 1) || bad=$((bad + 1))
    [ "$out" = "c$i" ] || bad=$((bad + 1))
    i=$((i + 1))
done
echo "$i pipelines, $bad bad"
[ "$bad" -eq 0 ]
