#!/usr/bin/env python3
"""A slow agent that reads only the recipients that its jobs name (`packet=`).

    pause.py CHANNEL SECONDS

It takes SECONDS for each, plus or minus a fifth. With equal times the agents would work in step, and
mail that arrives between two steps would wait for all of them.

The events in ../../events are `done HOST ARRIVAL` for each job, with the time of the message's
submission.
"""

import os
import random
import sys
import time

sys.dont_write_bytecode = True
import wire  # noqa: E402


def main(channel, seconds):
    book = wire.Book(channel)
    wire.say("#hungry")
    for path, host in wire.jobs():
        arrival = os.stat("../queue/" + os.path.basename(path)).st_mtime
        with wire.ControlFile(path) as control:
            for offset in wire.only or ():
                if control.take(offset):
                    time.sleep(float(seconds) * random.uniform(0.8, 1.2))
                    control.tag(offset, b"+")
                    wire.say(f"{wire.number(path)}/{offset}\t\tok3 thrown away")
        book.note("done", host, f"{arrival:.6f}")
        wire.say("#hungry")


if __name__ == "__main__":
    main(*sys.argv[1:])
