#!/usr/bin/env python3
"""An agent that ends recipients in all ways that matter for reports, with notary data.

    outcome.py CHANNEL [SECONDS]

It takes SECONDS for each recipient. The word before an exclamation mark in the address says what
happens:

    ok, error        tagged; the scheduler writes the `d` line
    error2           the agent writes the `d` line, then the tag
    silent           tagged as failed, `error2` without a `d` line
    deferred         deferred until there is a file ../../open
    wait             waits for a file ../../go, then as `error`

Other recipients are delivered (`ok3`).
"""

import os
import sys
import time

sys.dont_write_bytecode = True
from wire import Book, ControlFile, jobs, number, recipients, say  # noqa: E402

NOTARY = {
    "ok": ("delivered", "2.1.5 (delivered)", "smtp; 250 (delivered)"),
    "error": ("failed", "5.1.1 (no such user)", "smtp; 550 (no such user)"),
    "deferred": ("delayed", "4.2.2 (mailbox full)", "smtp; 452 (mailbox full)"),
}


def main(channel, seconds="0"):
    book = Book(channel)
    say("#hungry")
    for path, host in jobs():
        try:
            with ControlFile(path) as control:
                text = control.text()
                for offset, user in recipients(text, channel, host):
                    if control.take(offset):
                        time.sleep(float(seconds))
                        end(control, path, text, offset, user, book)
        except FileNotFoundError:
            say("#resync " + path)
        say("#hungry")


def end(control, path, text, offset, user, book):
    word, mark, _ = user.partition("!")
    if word == "wait":
        while not os.path.exists("../../go"):
            time.sleep(0.003)
        word = "error"
    if not mark or (word == "deferred" and os.path.exists("../../open")):
        word = "ok3"
    kind = "error" if word in ("error2", "silent") else word
    notary = "\x01".join((user, *NOTARY.get(kind, ("delivered", "", "")), "mx.test (192.0.2.1)"))
    reply = {"error": "no such user", "ok": "delivered", "deferred": "mailbox full"}.get(kind, "")
    if word == "error2":
        headers = text.index(b"\nm\n", offset) + 3
        line = f"d {offset}:{headers}:-1::{int(time.time())}\t{notary}\t{reply}\n"
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(file, line.encode())
        os.close(file)
    tag = {"error": b"-", "deferred": b" "}.get(kind, b"+")
    control.tag(offset, tag)
    status = "error2" if word == "silent" else word
    book.note("end", f"{number(path)}/{offset}", user, word)
    shown = "" if status in ("ok3", "error2") else notary
    say(f"{number(path)}/{offset}\t{shown}\t{status} {reply}")


if __name__ == "__main__":
    main(*sys.argv[1:])
