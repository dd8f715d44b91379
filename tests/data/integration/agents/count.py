#!/usr/bin/env python3
"""A correct agent that logs its actions in ../../events.

    count.py CHANNEL [SECONDS [NAME [SECONDS-TO-TAG]]]

It takes SECONDS for each recipient, and SECONDS-TO-TAG between the delivery and the tag. The word
before an exclamation mark in the address is the status of the recipient, until there is a file
../../open: `deferred!1`, `retryat+3!2`. With `wait!` it waits for a file ../../go first, with
`pause!` for ../../on.

The events are: start, job PATH HOST, take RECIPIENT, count RECIPIENT (the delivery), tag RECIPIENT,
idle, signal NUMBER, farewell LAST-BYTES, end. A RECIPIENT is `NUMBER/OFFSET ADDRESS`.
"""

import os
import signal
import sys
import time

sys.dont_write_bytecode = True
from wire import Book, ControlFile, jobs, number, recipients, say  # noqa: E402

GATES = {"wait": "../../go", "pause": "../../on"}
TAGS = {"ok": b"+", "ok2": b"+", "ok3": b"+", "error": b"-", "error2": b"-"}


def main(channel, seconds="0", name=None, to_tag="0"):
    book = Book(name or channel)
    stopping = []

    def stop(number, _):
        stopping.append(number)
        book.note("signal", str(number))

    for number_of_signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number_of_signal, stop)
    book.note("start")
    say("#hungry")
    for path, host in jobs(book.note):
        book.note("job", path, host or "-")
        if not work(path, host, channel, (float(seconds), float(to_tag)), book):
            say("#resync " + path)
        say("#hungry")
        if stopping:
            break
    book.note("end")


def work(path, host, channel, seconds, book):
    try:
        control = ControlFile(path)
    except OSError:
        return False
    taken = 0
    with control:
        for offset, user in recipients(control.text(), channel, host):
            if control.take(offset):
                taken += 1
                name = f"{number(path)}/{offset}"
                book.note("take", name, user)
                deliver(control, name, offset, user, seconds, book)
    return taken > 0


def deliver(control, name, offset, user, seconds, book):
    word, mark, _ = user.partition("!")
    if not mark or os.path.exists("../../open"):
        word = "ok3"
    if word in GATES:
        while not os.path.exists(GATES[word]):
            time.sleep(0.003)
        word = "ok3"
    time.sleep(seconds[0])
    status, plus, argument = word.partition("+")
    if status in TAGS:
        book.note("count", name, user)
        time.sleep(seconds[1])
    control.tag(offset, TAGS.get(status, b" "))
    if status in TAGS:
        book.note("tag", name, user)
    notary = "" if status == "ok3" else "\x01".join((user, "x", "4.0.0", "x-local; 400", ""))
    say(f"{name}\t{notary}\t{status} {plus}{argument}{' ' if plus else ''}as told: {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
