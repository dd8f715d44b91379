#!/bin/sh
# Prints members for a trial, one a line: members.sh COUNT HOSTS
#
# The field after the tab is for headers: {{token}} in the message becomes its value.
awk -v count="$1" -v hosts="$2" 'BEGIN {
    for (n = 0; n < count; n++)
        printf "member%d@h%d.test\ttoken=%06x\n", n, n % hosts, n * 40503 % 16777216
}'
