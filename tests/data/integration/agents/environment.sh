#!/bin/sh
# Writes down how it was started, in ../../environment-*, then goes on as the agent of the same name in
# python. What python changes in itself is looked at before it begins.
while read -r line; do
    # No program is started before this is over: the shell blocks signals while it does so.
    echo "$line"
done </proc/$$/status >../../environment-status
tr '\0' '\n' </proc/$$/environ >../../environment-variables
exec "${0%.sh}.py" "$@"
