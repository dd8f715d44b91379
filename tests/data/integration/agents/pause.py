#!/usr/bin/env python3
"""An agent that takes its time, and looks at nothing but the recipients that its jobs name (`packet=`).

    pause.py CHANNEL SECONDS

The events, in ../../events: `done HOST` for each job.
"""

import os
import sys
import time

sys.dont_write_bytecode = True
import wire  # noqa: E402


def main(channel, seconds):
    book = wire.Book(channel)
    wire.say("#hungry")
    for path, host in wire.jobs():
        with wire.ControlFile(path) as control:
            for offset in wire.only or ():
                if control.take(offset):
                    time.sleep(float(seconds))
                    control.tag(offset, b"+")
                    wire.say(f"{wire.number(path)}/{offset}\t\tok3 thrown away")
        book.note("done", host)
        wire.say("#hungry")


if __name__ == "__main__":
    main(*sys.argv[1:])
