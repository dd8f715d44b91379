#!/usr/bin/env python3
"""Measures a bulk job: its submission, the rate of delivery, the scheduler's memory, answers of mailq.

    benches/bulk.py FOLDER-OF-PROGRAMS [RECIPIENTS]

FOLDER-OF-PROGRAMS is that of a release build (target/release). 20 agents `discard` deliver to 2000
hosts: first 500 single messages for 100 recipients each, then a job of RECIPIENTS.
"""

import pathlib
import random
import subprocess
import sys
import tempfile
import time

AGENTS = 20
SINGLE = 500
PER_MESSAGE = 100


def main(programs, recipients="1000000"):
    programs, count = pathlib.Path(programs).resolve(), int(recipients)
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as root:
        site = Site(pathlib.Path(root), programs)
        site.prepare()
        try:
            measure(site, count)
        finally:
            site.stop()


class Site:
    def __init__(self, root, programs):
        self.root, self.programs, self.scheduler = root, programs, None
        self.postoffice = root / "postoffice"

    def prepare(self):
        self.run("scheduler", "--init", str(self.postoffice))
        (self.root / "scheduler.cf").write_text(
            f"PARAMmailqsock=UNIX:{self.root}/mailq\n"
            f"b/*\n\tmaxring={AGENTS} maxthr={AGENTS} overfeed=5"
            f' command="{self.programs}/discard -c b"\n'
        )
        (self.root / "zmailer.conf").write_text(
            f"POSTOFFICE={self.postoffice}\nMAILSHARE={self.root}\nLOGDIR={self.root}\n"
            f"MAILBIN={self.programs}\n"
        )

    def run(self, program, *arguments, **options):
        command = [str(self.programs / program), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout

    def start(self):
        command = [str(self.programs / "scheduler"), "-i", "-Z", str(self.root / "zmailer.conf")]
        command += ["-f", str(self.root / "scheduler.cf")]
        output = open(self.root / "output", "w")
        self.scheduler = subprocess.Popen(command, stdout=output, stderr=output)

    def stop(self):
        if self.scheduler:
            self.scheduler.terminate()
            self.scheduler.wait()
            self.scheduler = None

    def memory(self):
        """Returns the peak of the scheduler's memory, in MB."""
        status = pathlib.Path(f"/proc/{self.scheduler.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def mailq(self, *arguments):
        return self.run("mailq", "-Z", str(self.root / "zmailer.conf"), *arguments)


def measure(site, count):
    rate = single_messages(site)
    print(f"single messages: {rate:.0f} recipients a second")
    random.seed(1)
    addresses = site.root / "recipients"
    with addresses.open("w") as out:
        for number in range(count):
            host = "large" if random.random() < 0.3 else f"h{random.randrange(2000)}"
            out.write(f"user{number}@{host}.test\n")
    message = site.root / "message"
    message.write_text("Subject: bench\n\n" + "This is the body.\n" * 100)
    begun = time.time()
    job = submit(site, addresses, message)
    print(f"submit --bulk: {count} recipients in {time.time() - begun:.1f} s")
    site.start()
    begun, slowest = time.time(), 0.0
    result = site.postoffice / "bulk" / job / "result"
    while not result.exists():
        asked = time.time()
        try:
            site.mailq("job", job)
            slowest = max(slowest, time.time() - asked)
        except subprocess.CalledProcessError:
            pass
        time.sleep(0.5)
    taken = time.time() - begun
    print(f"bulk job: {count / taken:.0f} recipients a second, {count / taken / rate:.2f} of the above")
    print(f"memory of the scheduler: {site.memory():.0f} MB")
    print(f"mailq job: at most {slowest * 1000:.0f} ms, its start included")
    begun = time.time()
    site.stop()
    print(f"TERM: ended after {time.time() - begun:.2f} s")


def single_messages(site):
    """Delivers single messages. Returns the rate in recipients a second."""
    message = "Subject: bench\n\n" + "This is the body.\n" * 100
    for number in range(SINGLE):
        users = [f"user{number}-{place}@h{number}.test" for place in range(PER_MESSAGE)]
        options = ["-Z", str(site.root / "zmailer.conf"), "-c", "b", "-n", f"h{number}.test"]
        site.run("submit", *options, *users, input=message)
    site.start()
    begun = time.time()
    while any((site.postoffice / "transport").iterdir()):
        time.sleep(0.05)
    taken = time.time() - begun
    site.stop()
    return SINGLE * PER_MESSAGE / taken


def submit(site, addresses, message):
    options = ["-Z", str(site.root / "zmailer.conf"), "-c", "b", "-f", "list@example.org"]
    return site.run("submit", *options, "--bulk", str(addresses), "--message", str(message)).strip()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
