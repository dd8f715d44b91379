#!/usr/bin/env python3
"""Writes its environment to ../../environment, then delivers everything.

    environment.py CHANNEL [ARGUMENT...]
"""

import os
import resource
import stat
import sys

sys.dont_write_bytecode = True
from wire import Book, ControlFile, jobs, number, recipients, say  # noqa: E402


def main(channel):
    lines = [f"arguments {' '.join(sys.argv[1:])}", f"cwd {os.getcwd()}"]
    for descriptor in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue  # the one that the list was read from
        kind = "socket" if stat.S_ISSOCK(status.st_mode) else "other"
        lines.append(f"descriptor {descriptor} {kind} {status.st_ino}")
    lines.append(f"files {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}")
    lines.append(f"niceness {os.getpriority(os.PRIO_PROCESS, 0)}")
    lines.append(f"policy {os.sched_getscheduler(0)}")
    with open("../../environment.new", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.rename("../../environment.new", "../../environment")
    book = Book(channel)
    say("#hungry")
    for path, host in jobs():
        with ControlFile(path) as control:
            for offset, user in recipients(control.text(), channel, host):
                book.note("count", f"{number(path)}/{offset}", user)
                say(f"{number(path)}/{offset}\t\tok3 seen")
        say("#hungry")


if __name__ == "__main__":
    main(sys.argv[1])
