#!/bin/sh
# usage: load.sh TABLE.csv OUT
set -eu
sqlite3 "$2/sales.db" << END
pragma journal_mode = wal;
create table sale (day text, customer text, amount real);
.mode csv
.import --skip 1 $1 sale
create index by_customer on sale (customer);
END
sqlite3 -csv "$2/sales.db" "select substr(day, 1, 7), sum(amount) from sale group by 1 order by 1" > "$2/months.csv"
sqlite3 "$2/sales.db" "select customer from sale group by 1 order by sum(amount) desc limit 1"
