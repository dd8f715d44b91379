"""What the scripts of this folder have in common: the page, a spool with a scheduler, and tables."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = ROOT / "target" / os.environ.get("BUILD", "release")
AGENTS = ROOT / "tests/data/integration/agents"
PAGE = HERE.parent / "scheduling.md"
BODY = b"Subject: experiment\n\nA body.\n"


def put(name, text):
    """Replaces what is between two marks of the page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    page = PAGE.read_text()
    before, rest = page.split(begin)
    PAGE.write_text(f"{before}{begin}{text}\n{end}{rest.split(end, 1)[1]}")


def table(head, rows):
    """Lines of a table, as the page has them."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class Place:
    """A spool in a folder, and the files that a scheduler for it reads. Agents write `events` into the folder."""

    def __init__(self, folder, configuration):
        self.folder = Path(folder)
        self.post = self.folder / "postoffice"
        for name in ("transport", "queue", "postman", "router", "public"):
            (self.post / name).mkdir(parents=True)
        mailq = f"PARAMmailqsock=UNIX:{folder}/mailq\n"
        (self.folder / "scheduler.cf").write_text(mailq + configuration)
        (self.folder / "zenv").write_text(f"POSTOFFICE={self.post}\n")

    def submit(self, channel, users, *options):
        command = [PROGRAMS / "submit", "-Z", self.folder / "zenv", "-c", channel, *options, *users]
        subprocess.run(command, input=BODY, stdout=subprocess.DEVNULL, check=True)

    @contextlib.contextmanager
    def scheduler(self):
        """A scheduler that runs as long as the block does, and has begun to."""
        files = ["-Z", self.folder / "zenv", "-f", self.folder / "scheduler.cf", "-L", self.folder / "log"]
        process = subprocess.Popen([PROGRAMS / "scheduler", "-i", "-R", "1000", *files])
        try:
            deadline = time.monotonic() + 10
            while not (self.post / ".scheduler.notify").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the scheduler does not start")
                time.sleep(0.01)
            yield process
        finally:
            process.terminate()
            process.wait()

    def events(self, word):
        """What agents have written of one kind: the words of each line, time first."""
        book = self.folder / "events"
        lines = [line.split() for line in book.read_text().splitlines()] if book.exists() else []
        return [line for line in lines if line[3:4] == [word]]


@contextlib.contextmanager
def place(configuration):
    """A place that is there as long as the block is."""
    with tempfile.TemporaryDirectory(prefix="zsched") as folder:
        yield Place(folder, configuration)


def wait_for(found, count, seconds):
    """Waits until `found` returns so much; None if it takes longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        all_found = found()
        if len(all_found) >= count:
            return all_found
        time.sleep(0.2)
    return None
