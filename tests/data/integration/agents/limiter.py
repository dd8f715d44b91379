#!/usr/bin/env python3
"""An agent for a host that accepts five connections at a time, and refuses further ones.

    limiter.py CHANNEL SECONDS [CONNECTIONS]

A delivery takes SECONDS, plus or minus a fifth, so that agents do not work in step; the connection
lasts as long. A refused connection gives `deferall` after a twentieth of that time, since no agent
learns of a refusal at once.

The events in ../../events are `job RECIPIENTS reached BEGIN` and `job RECIPIENTS refused BEGIN`, with
the time at which the job began.
"""

import fcntl
import os
import random
import sys
import time

sys.dont_write_bytecode = True
from wire import Book, ControlFile, jobs, number, recipients, say  # noqa: E402


def main(channel, seconds, connections="5"):
    book = Book(channel)
    say("#hungry")
    for path, host in jobs():
        work(path, host, channel, float(seconds), int(connections), book)
        say("#hungry")


def work(path, host, channel, seconds, connections, book):
    begin = f"{time.time():.6f}"
    with ControlFile(path) as control:
        ours = [offset for offset, _ in recipients(control.text(), channel, host)]
        place = connect(connections)
        if place is None:
            time.sleep(seconds / 20)
            book.note("job", str(len(ours)), "refused", begin)
            for offset in ours:
                say(f"{number(path)}/{offset}\t\tdeferall 421 too many connections")
            return
        time.sleep(seconds * random.uniform(0.8, 1.2))
        book.note("job", str(len(ours)), "reached", begin)
        for offset in ours:
            control.tag(offset, b"+")
            say(f"{number(path)}/{offset}\t\tok3 250 taken")
        os.close(place)


def connect(connections):
    """Takes a free place until its descriptor is closed. Returns None if there is none."""
    for place in range(connections):
        file = os.open(f"../../place-{place}", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            os.close(file)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
