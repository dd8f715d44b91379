"""What comparisons with other mail systems share: the sink, and the processor time of processes."""

import os
import re
import socket
import subprocess
import sys
import threading
import time

DEADLINE = 600
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    """A TCP port that no program listens on."""
    with socket.create_server(("0.0.0.0", 0)) as free:
        return free.getsockname()[1]


class Sink:
    """smtp-sink, which shows the number of messages that it has taken."""

    def __init__(self, port, messages):
        self.messages, self.taken = messages, 0
        self.last = None
        command = ["smtp-sink", "-c", "-u", "root", f"0.0.0.0:{port}", "1000"]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        time.sleep(0.3)

    def read(self):
        rest = b""
        while part := os.read(self.child.stdout.fileno(), 65536):
            counts = re.findall(rb"mesg=(\d+)", rest + part)
            rest = part[-40:]
            if counts:
                self.taken = max(self.taken, int(counts[-1]))
            if self.taken >= self.messages and self.last is None:
                self.last = time.monotonic()

    def wait(self):
        """Waits for the last message, and returns its time."""
        end = time.monotonic() + DEADLINE
        while self.last is None:
            if time.monotonic() > end or self.child.poll() is not None:
                sys.exit(f"the sink has {self.taken} of {self.messages} messages")
            time.sleep(0.005)
        return self.last

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.reader.join()


def processor_time(top):
    """Seconds of a process and its descendants, with those that have ended and were waited for."""
    parents, times = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = open(f"/proc/{entry}/stat").read().rsplit(") ", 1)[1].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            times[int(entry)] = sum(int(field) for field in fields[11:15]) / TICKS
    total = 0.0
    for pid in times:
        ancestor = pid
        while ancestor not in (0, top):
            ancestor = parents.get(ancestor, 0)
        total += times[pid] if ancestor == top else 0
    return total
