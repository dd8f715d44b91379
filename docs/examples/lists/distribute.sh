#!/bin/sh
# Sends a message to the members of a list: distribute.sh LIST@DOMAIN KIND ISSUE <message
#
#     news     members get it now, each with an address for bounces of its own
#     digest   members who chose the digest get it at 18:00
#     urgent   the board gets it before the rest of all others
#
# ISSUE names the message: to run the command twice sends it once. MEMBERS is a folder with the files
# news, digest and urgent, with an address on each line (bulk-job(5)). The name of the job is printed;
# "mailq job" has its state, and bulk/JOB/result in the spool what became of each member.
set -eu
list=$1 kind=$2 issue=$3

case $kind in
    news) set -- --priority 7 --share 50 ;;
    digest) set -- --priority 8 --not-before "${DIGEST_TIME:-18:00 Europe/Berlin}" ;;
    urgent) set -- --priority 0 --packet-size 20 ;;
    *) echo "$0: $kind is none of news, digest, urgent" >&2; exit 64 ;;
esac
exec submit -Z "${ZENV:-/etc/zmailer.conf}" -c "${CHANNEL:-smtp}" -f "${list%@*}-bounces@${list#*@}" \
    --verp --list "${list%@*}" --key "$list $kind $issue" --bulk "${MEMBERS:-/var/lib/lists}/$kind" "$@"
