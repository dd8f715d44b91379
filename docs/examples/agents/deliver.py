#!/usr/bin/env python3
"""A transport agent: runs a program for each recipient.

    command="/usr/local/lib/agents/deliver.py CHANNEL PROGRAM [ARG...]"

The program gets the address as its last argument and the message on its standard input. Its exit
status decides: 0 is delivered, 75 is "later", anything else a failure; what it prints is the reason.
Addresses that begin with a dash fail: the program could take them for options. See transport-agent(7)
for the protocol.
"""

import os
import signal
import subprocess
import sys
import time

TEMPORARY = 75  # EX_TEMPFAIL


at_work = ending = False


def main(channel, command):
    global at_work
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    say(b"#hungry")
    while line := next_line():
        # An empty line means "end"; a line without its end was cut short, and is not for us to guess.
        if line == b"\n" or not line.endswith(b"\n"):
            break
        at_work = True
        if line != b"#idle\n":
            path, _, host = line[:-1].partition(b"\t")
            if not work(path, host, channel, command):
                # What the scheduler believes is not what the file says: ask it to look again.
                say(b"#resync " + path)
        at_work = False
        if ending:
            break
        say(b"#hungry")


def next_line():
    """Returns the next line from the scheduler, or nothing if the scheduler is gone.

    A read fails with ECONNRESET if the scheduler exited before it read all that we wrote.
    """
    try:
        return sys.stdin.buffer.readline()
    except ConnectionResetError:
        return b""


def end(*_):
    """A signal asks us to end: at once while we wait for a job, else when the job at hand is done."""
    global ending
    ending = True
    if not at_work:
        sys.exit(0)


def say(line):
    """Tells the scheduler something. If it is gone, the job is finished all the same."""
    try:
        os.write(1, line + b"\n")  # at once: nothing may wait in a buffer
    except OSError:
        pass


def work(path, host, channel, command):
    """Does one job: the recipients in file PATH for our channel and this host."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    with os.fdopen(file, "rb+", buffering=0) as control:
        name, body, ours = parse(control.read(), channel, host)
        recipients = [recipient for recipient in ours if lock(file, recipient["offset"])]
        queued = os.path.join(b"../queue", os.path.dirname(path), name)
        for recipient in reversed(recipients):
            deliver(file, path, recipient, *run(queued, body, recipient, command))
    return bool(recipients)


def parse(text, channel, host):
    """Finds name, body offset, and the recipients that are to do and ours; skips malformed lines."""
    name, body, recipients, waiting, position = b"", None, [], [], 0
    while position < len(text):
        is_block = text.startswith(b"m\n", position)
        end = text.find(b"\n\n" if is_block else b"\n", position)
        end = len(text) if end < 0 else end
        line, offset, position = text[position:end], position, end + 1 + is_block
        if line.startswith(b"i "):
            name = line[2:]
        elif line.startswith(b"o ") and line[2:].isdigit() and len(line) < 20:
            body = int(line[2:])
        elif line[:1] == b"r":
            words = line[12:].split()  # addresses with quoted blanks need more care than this
            ours = line[1:2] == b" " and len(words) > 2 and words[0] == channel
            ours = ours and words[1].lower() == host.lower()
            user = words[2] if ours else b""
            waiting.append({"ours": ours, "offset": offset, "user": user, "notify": -1})
        elif line.startswith(b"N ") and waiting:
            waiting[-1]["notify"] = offset
        elif is_block:  # the headers of all recipients since the last such block
            for recipient in waiting:
                recipient.update(headers=line[2:] + b"\n", header_offset=offset + 2)
            recipients, waiting = recipients + [r for r in waiting if r["ours"]], []
    return name, body, recipients


def lock(file, offset):
    """Takes the recipient, unless another agent has: tag and the first 6 digits of our pid."""
    if os.pread(file, 1, offset + 1) != b" ":
        return False
    return os.pwrite(file, (b"~%6d" % os.getpid())[:7], offset + 1) == 7


def run(queued, body, recipient, command):
    """Runs the program; returns its exit status and what it said, in one line."""
    if recipient["user"].startswith(b"-"):
        return 1, "addresses that begin with a dash are not for us"
    if body is None:
        return TEMPORARY, "the control file does not say where the body is"
    try:
        with open(queued, "rb") as message:
            message.seek(body)
            whole = recipient["headers"] + b"\n" + message.read()
    except FileNotFoundError:
        return 1, "the message is missing from the queue"
    except OSError as error:
        return TEMPORARY, f"cannot read the message: {error.strerror}"
    try:
        done = subprocess.run(command + [recipient["user"]], input=whole, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    except (OSError, ValueError) as error:
        return TEMPORARY, f"cannot run {command[0]}: {error}"
    said = " ".join(done.stdout.decode(errors="replace").split())
    return done.returncode, said or f"exit status {done.returncode}"


def deliver(file, path, recipient, status, text):
    """Makes known what became of a recipient: first d line, then report, then tag."""
    number = os.path.basename(path).decode().split("-")[0]
    if status == 0:  # "ok": the scheduler shall tell the sender, if the sender wants to know
        word, tag, reason = "ok", b"+      ", ("delivered", "2.0.0", "x-local; 250 (done)")
    elif status == TEMPORARY:
        word, tag, reason = "deferred", b"       ", ("delayed", "4.3.0", "x-local; 451 (later)")
    else:
        word, tag, reason = "error2", b"-      ", ("failed", "5.3.0", "x-local; 550 (refused)")
    # Notary data: final address, action, enhanced status, reply code, remote host.
    notary = "\x01".join((recipient["user"].decode(errors="replace"), *reason, ""))
    if word == "error2":  # it has to be in the control file, on disk, before we say so
        place = f"{recipient['offset']}:{recipient['header_offset']}:{recipient['notify']}"
        if not note(path, f"d {place}::{int(time.time())}\t{notary}\t{text}\n".encode()):
            return deliver(file, path, recipient, TEMPORARY, f"cannot note this: {text}")
        notary = ""
    say(f"{number}/{recipient['offset']}\t{notary}\t{word} {text}".encode())
    os.pwrite(file, tag, recipient["offset"] + 1)


def note(path, line):
    """Appends a line to the control file: all of it, and on disk, or nothing."""
    try:
        with open(path, "ab", buffering=0) as control:
            length = os.fstat(control.fileno()).st_size
            try:
                written = control.write(line)
                os.fsync(control)
            except OSError:
                written = 0
            if written != len(line):
                control.truncate(length)
            return written == len(line)
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1].encode(), sys.argv[2:])
