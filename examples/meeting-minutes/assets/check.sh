# Says ok if the minutes have both headings and something below each.
awk '/^## /{part=$2} /^- /{count[part]++} END{exit !(count["Decisions"] && count["Tasks"])}' "$1" && echo ok
