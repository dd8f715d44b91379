#!/usr/bin/env python3
"""An agent that takes its time, and looks at nothing but the recipients that its jobs name (`packet=`).

    pause.py CHANNEL SECONDS

It takes SECONDS for each, give or take a fifth: exactly the same for all would keep the agents in step, and what
arrives between two steps would wait for all of them.

The events, in ../../events: `done HOST ARRIVAL` for each job, with the time at which the message was put in.
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
