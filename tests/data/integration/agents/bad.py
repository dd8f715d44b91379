#!/usr/bin/env python3
"""Agents that misbehave.

    bad.py MODE CHANNEL

Each does something wrong with its first job; most of them with every job. There is a function for
each MODE below.
"""

import os
import signal
import sys
import time

sys.dont_write_bytecode = True
from wire import Book, ControlFile, jobs, number, recipients, say  # noqa: E402


def main(mode, channel):
    book = Book(channel)
    book.note("start")
    if mode in ("mute", "early", "glutton", "deaf"):
        globals()[mode](book)
    say("#hungry")
    for path, host in jobs():
        book.note("job", path, host)
        with ControlFile(path) as control:
            for offset, user in recipients(control.text(), channel, host):
                book.user = user
                globals()[mode](control, path, offset, book)
        say("#hungry")
    book.note("end")


def sleep():
    while True:
        time.sleep(1000)


def done(control, path, offset, book):
    book.note("count", f"{number(path)}/{offset}", book.user)
    control.tag(offset, b"+")
    say(f"{number(path)}/{offset}\t\tok3 at last")


# --- without a job ---


def mute(_):
    """Writes nothing and reads nothing."""
    sleep()


def early(_):
    """Exits at once."""
    say("the licence has expired")
    sys.exit(3)


def deaf(_):
    """Asks for jobs, but never reads any."""
    say("#hungry")
    say("#hungry")
    sleep()


def glutton(_):
    """Writes #hungry far too often."""
    while True:
        os.write(1, b"#hungry\n" * 1000)
        time.sleep(0.001)


# --- with a job ---


def status(control, path, offset, book):
    """Exits with a status, holding its lock."""
    control.take(offset)
    say("# cannot open the frobnicator")
    sys.exit(75)


def crash(control, path, offset, book):
    """Is killed by a signal, holding its lock."""
    control.take(offset)
    os.kill(os.getpid(), signal.SIGSEGV)
    sleep()


def crash_once(control, path, offset, book):
    """Is killed during its first job; its successors deliver."""
    if not os.path.exists("../../crashed"):
        control.take(offset)
        os.close(os.open("../../crashed", os.O_CREAT | os.O_WRONLY))
        os.kill(os.getpid(), signal.SIGKILL)
        sleep()
    if not control.take(offset):
        return book.note("locked", path)
    done(control, path, offset, book)


def partial(control, path, offset, book):
    """Exits before it has written the end of its last line."""
    os.write(1, f"{number(path)}/{offset}\t\tok3 deliver".encode())
    sys.exit(0)


def garbage(control, path, offset, book):
    """Writes many kinds of malformed lines, and nothing about its job."""
    us = f"{number(path)}/{offset}"
    for line in (
        "", "#", "# a comment", "Traceback (most recent call last):", "1/2/3", f"{us} ok3", f"{us}\tok3",
        "\t\t\t", f"/{offset}\t\tok3", f"{us}9\t\tok3",
        f"-{us}\t\tok3", f" {us}\t\tok3", f"{number(path)}/-1\t\tok3", f"{number(path)}/\t\tok3",
        f"{number(path)}/99999999999999999999\t\tok3", f"99999999999999999999/{offset}\t\tok3",
        "#resync", "#resync ../../../etc/passwd", "#resync 99999999999999999999", "#hungr",
    ):  # fmt: skip
        say(line)


def unknown(control, path, offset, book):
    """Uses unknown status words."""
    say(f"{number(path)}/{offset}\t\tsplendid it went down well")


def long_line(control, path, offset, book):
    """Writes a line of ten megabytes, then delivers."""
    rest = b"x" * 10_000_000 + b"\n"
    while rest:
        rest = rest[os.write(1, rest) :]
    done(control, path, offset, book)


def binary(control, path, offset, book):
    """Writes a megabyte of random bytes, then delivers."""
    rest = os.urandom(1_000_000) + b"\n"
    while rest:
        rest = rest[os.write(1, rest) :]
    done(control, path, offset, book)


def flood(control, path, offset, book):
    """Writes without end."""
    book.note("flood")
    while True:
        os.write(1, b"All work and no play makes Jack a dull boy.\n" * 1000)


def close(control, path, offset, book):
    """Closes its socket, but does not exit."""
    control.take(offset)
    os.closerange(0, 3)
    sleep()


def stop_talking(control, path, offset, book):
    """Stops writing during a job, holding its lock."""
    control.take(offset)
    sleep()


def stranger(control, path, offset, book):
    """Reports about unknown messages and recipients, then delivers."""
    say(f"4711/{offset}\t\tok3 whose is this?")
    say(f"{number(path)}/{offset + 1}\t\tok3 whose is this?")
    say(f"{number(path)}/0\t\terror whose is this?")
    done(control, path, offset, book)
    say(f"{number(path)}/{offset}\t\terror2 once more")
    say(f"{number(path)}/{offset}\t\tdeferall once more")


def orphan(control, path, offset, book):
    """Delivers and exits, but leaves a child that has the socket and goes on writing."""
    if os.fork() == 0:
        while True:
            os.write(1, b"all day long\n" * 100)
    done(control, path, offset, book)
    say("#hungry")
    book.note("end")
    os._exit(0)


def verbose(control, path, offset, book):
    """Defers with a very long text."""
    say(f"{number(path)}/{offset}\t\tdeferred {'because ' * 512}")


def hostile(control, path, offset, book):
    """Writes escape sequences on both outputs; fails recipients whose address begins with x."""
    odd = "a\rb\x1b[31m\x07\x7f\u009b2J\u202e".encode() + b"\x9b\xff"
    os.write(2, b"stray " + odd + b"\n")
    verdict = "error2" if book.user.startswith("x") else "deferred"
    if verdict == "error2":
        control.tag(offset, b"-")
    say(f"{number(path)}/{offset}\t\t{verdict} ".encode() + odd)


def alarm(control, path, offset, book):
    """Makes the scheduler write a note (status `error`) when ../../go exists."""
    while not os.path.exists("../../go"):
        time.sleep(0.003)
    control.tag(offset, b"-")
    say(f"{number(path)}/{offset}\tu@x\x01failed\x015.1.1\x01x-local; 550\x01\terror no such user")


if __name__ == "__main__":
    main(*sys.argv[1:])
