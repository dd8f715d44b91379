"""Shared parts of the scripted agents: the protocol, and the control file."""

import fcntl
import os
import sys
import time

EVENTS = "../../events"  # the working folder is transport/


def say(line):
    """Writes a line to the scheduler. If that is gone, the agent still finishes its jobs."""
    if isinstance(line, str):
        line = line.encode()
    try:
        os.write(1, line + b"\n")
    except OSError:
        pass


only = None  # the offsets that the present job is for, if not all


def jobs(note=lambda *words: None):
    """Yields path and host of each job until the end; answers #idle. Notes the last input."""
    global only
    while line := next_line():
        if line == b"\n" or not line.endswith(b"\n"):
            note("farewell", repr(line + b"".join(iter(next_line, b""))))
            return
        if line == b"#idle\n":
            note("idle")
            say("#hungry")
            continue
        path, host, *rest = line[:-1].split(b"\t") + [b""] * (line.count(b"\t") == 0)
        only = {int(offset) for offset in rest[0].split(b",")} if rest else None
        yield path.decode(), host.decode()
    note("farewell", "nothing")


def next_line():
    """Returns the next line, or nothing at the end of input.

    Input ends with ECONNRESET if the scheduler exited before it read all that we wrote.
    """
    try:
        return sys.stdin.buffer.readline()
    except ConnectionResetError:
        return b""


def number(path):
    return os.path.basename(path).split("-")[0]


def recipients(text, channel, host):
    """Yields offset and user of our unfinished recipients."""
    position = 0
    is_header = False
    for line in text.split(b"\n"):
        is_header = line == b"m" or (is_header and line != b"")
        if not is_header and line.startswith(b"r "):
            words = line[12:].decode().split()
            is_ours = len(words) > 2 and words[0] == channel and host in ("", words[1].lower())
            if is_ours and (only is None or position in only):
                yield position, words[2]
        position += len(line) + 1


class ControlFile:
    """An open control file."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.file)

    def text(self):
        return os.pread(self.file, os.fstat(self.file).st_size, 0)

    def take(self, offset):
        """Locks a recipient. Unlike that of real agents, this check is atomic."""
        fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            if os.pread(self.file, 1, offset + 1) != b" ":
                return False
            os.pwrite(self.file, (b"~%6d" % os.getpid())[:7], offset + 1)
            return True
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def tag(self, offset, tag):
        os.pwrite(self.file, tag + b"      ", offset + 1)


class Book:
    """Logs the actions of an agent: one line for each event, in one write."""

    def __init__(self, name):
        self.name = name
        self.file = os.open(EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def note(self, *words):
        line = f"{time.time():.6f} {self.name} {os.getpid()} {' '.join(words)}\n"
        os.write(self.file, line.encode())
