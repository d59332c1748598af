#!/usr/bin/env bash
# usage: summary.sh LOG OUT
set -euo pipefail
log=$1 out=$2
declare -A status=() errors=()
lines=0
pattern='^([^ ]+) .*\] "[^"]*" ([0-9]{3}) '
while IFS= read -r line; do
    if [[ $line =~ $pattern ]]; then
        address=${BASH_REMATCH[1]} code=${BASH_REMATCH[2]}
        status[$code]=$((${status[$code]:-0} + 1))
        if ((code >= 400)); then
            errors[$address]=$((${errors[$address]:-0} + 1))
        fi
        lines=$((lines + 1))
    fi
done < "$log"
for code in "${!status[@]}"; do
    echo "$code,${status[$code]}"
done | sort > "$out/status.csv"
# Process substitution and a here-document, because both need a little more of a system than plain pipes.
sort -rn <(for address in "${!errors[@]}"; do echo "${errors[$address]} $address"; done) > "$out/errors.txt"
cat << END
$lines requests, $(wc -l < "$out/status.csv") kinds of answer, most errors: $(sed -n '1s/^[0-9]* //p' "$out/errors.txt")
END
