#!/bin/sh
# Writes its environment to ../../environment-*, then becomes the Python agent of the same name. Python
# changes some of these properties at its start, so they are read here.
while read -r line; do
    # The loop starts no program, since the shell blocks signals while it starts one.
    echo "$line"
done </proc/$$/status >../../environment-status
tr '\0' '\n' </proc/$$/environ >../../environment-variables
exec "${0%.sh}.py" "$@"
