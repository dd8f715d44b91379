#!/bin/sh
# A transport agent in plain sh: runs a program for each recipient.
#
#     command="/usr/local/lib/agents/deliver.sh CHANNEL PROGRAM [ARG...]"
#
# The program gets the recipient's address as its last argument and the message on its standard input.
# Its exit status decides: 0 is delivered, 75 means try again later, anything else is a failure; what
# it prints is the reason. See transport-agent(7) for the protocol.
#
# Addresses with blanks in them are beyond this example: such recipients are left alone. Those that
# begin with a dash fail: the program could take them for options.

LC_ALL=C            # offsets count bytes
PATH=${PATH:-/usr/bin:/bin}
export LC_ALL PATH
channel=$1
shift
tab=$(printf '\t')

# Prints "offset notify-offset header-offset user" for each recipient in FILE that is to do and ours,
# and before them "name body-offset", the name and body offset of the message.
list() {                        # FILE HOST
    awk -v channel="$channel" -v host="$2" '
        { start = offset; offset += length($0) + 1 }
        in_headers { in_headers = ($0 != ""); next }
        /^i / { name = substr($0, 3) }
        /^o [0-9]+$/ { body = substr($0, 3) }
        /^r/ { last = 0 }
        /^r / && !/"/ && split(substr($0, 13), word, " ") == 4 {
            if (word[1] == channel && tolower(word[2]) == tolower(host)) {
                last = ++count; place[last] = start; notify[last] = -1; user[last] = word[3]
            }
        }
        /^N / && last { notify[last] = start }
        $0 == "m" {             # the headers of all recipients since the last such block
            in_headers = 1
            if (!told++) print name, body
            for (; done < count; done++)
                print place[done + 1], notify[done + 1], start + 2, user[done + 1]
        }' "$1"
}

# Writes 7 bytes, tag and pid column, behind the letter of the line at OFFSET.
tag() {                         # FILE OFFSET BYTES
    printf '%s' "$3" | dd of="$1" bs=1 seek=$(($2 + 1)) conv=notrunc 2>/dev/null
}

# Takes the recipient at OFFSET, unless another agent has: tag, and the first 6 digits of our pid.
lock() {                        # FILE OFFSET
    [ "$(dd if="$1" bs=1 skip=$(($2 + 1)) count=1 2>/dev/null)" = " " ] &&
        tag "$1" "$2" "$(printf '~%6.6s' $$)"
}

# Prints the message for one recipient: headers from the control file up to the empty line, then the
# body. The program may end before it has read all of that.
message() {                     # FILE HEADER-OFFSET MESSAGE-FILE BODY-OFFSET
    tail -c +$(($2 + 1)) "$1" | sed '/^$/q'
    tail -c +$(($4 + 1)) "$3"
}

# Delivers to one recipient and makes known what became of it: first d line, then tag, then report. After
# the last report the scheduler removes the file, and whatever opens it by name would create it again.
deliver() {                     # FILE OFFSET NOTIFY HEADERS USER MESSAGE-FILE BODY-OFFSET PROGRAM...
    file=$1 offset=$2 notify=$3 headers=$4 user=$5 queued=$6 body=$7
    shift 7
    case $user in -*) dash=yes ;; *) dash= ;; esac
    if [ "$dash" ]; then
        text="addresses that begin with a dash are not for us" status=1
    elif [ -z "$body" ]; then
        text="the control file does not say where the body is" status=75
    elif [ -f "$queued" ]; then
        text=$(message "$file" "$headers" "$queued" "$body" 2>/dev/null | "$@" "$user" 2>&1)
        status=$?
    else
        text="the message is missing from the queue" status=1
    fi
    text=$(printf '%s' "${text:-exit status $status}" | tr '\n\t' '\r ')
    number=${file##*/}
    number=${number%%[!0-9]*}
    case $status in
    0)  # "ok": the scheduler shall tell the sender, if the sender wants to know.
        word=ok mark=+ fields="delivered 2.0.0 250" ;;
    75) word=deferred mark=' ' fields="delayed 4.3.0 451" ;;
    *)  word=error2 mark=- fields="failed 5.3.0 550" ;;
    esac
    # Notary data: final address, action, enhanced status, reply code, remote host.
    notary=$user$(printf '\001%s\001%s\001x-local; %s\001' $fields)
    if [ $word = error2 ]; then
        # It has to be in the control file, on disk, before we say so. If not: another day.
        place=$offset:$headers:$notify::$(date +%s) length=$(wc -c <"$file")
        if printf 'd %s\t%s\t%s\n' "$place" "$notary" "$text" >>"$file" && sync; then
            notary=
        else
            word=deferred mark=' '
            [ "$length" ] && dd of="$file" bs=1 seek=$((length)) count=0 2>/dev/null
        fi
    fi
    tag "$file" "$offset" "$mark      "
    printf '%s/%s\t%s\t%s %s\n' "$number" "$offset" "$notary" "$word" "$text"
}

# A signal asks us to end: at once while we wait for a job (then "read" fails), else when it is done.
trap 'ending=yes' HUP INT QUIT TERM
ending=
echo '#hungry'
# "read" fails for a line without its end, too: one that was cut short is not for us to guess.
while IFS= read -r line && [ -n "$line" ]; do
    if [ "$line" != '#idle' ]; then
        path=${line%%"$tab"*} host=${line#*"$tab"}
        taken=
        while read -r offset notify headers user; do
            if [ -z "$headers" ]; then      # the first line: name and body offset
                queued=../queue/${path%"${path##*/}"}$offset body=$notify
            elif lock "$path" "$offset"; then
                taken=yes
                deliver "$path" "$offset" "$notify" "$headers" "$user" "$queued" "$body" "$@"
            fi
        done <<LIST
$(list "$path" "$host" 2>/dev/null)
LIST
        # What the scheduler believes is not what the file says: ask it to look again.
        [ -n "$taken" ] || printf '#resync %s\n' "$path"
    fi
    [ -z "$ending" ] || break
    echo '#hungry'
done
