#!/usr/bin/env python3
"""Measures bulk jobs beside ordinary messages, and an urgent job in the middle of another one.

    benches/bulk.py PROGRAMS [RECIPIENTS [FOLDER]]

PROGRAMS is the folder of a release build (target/release). The spools are made in FOLDER. 20 agents
mark recipients and answer. Rates are from the start of the scheduler to the last delivery.
"""

import collections
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

AGENTS = 20
PER_MESSAGE = 100
HOSTS = 2000
BODY = "This is the body.\n" * 100
HERE = pathlib.Path(__file__).resolve().parent


class Site:
    """A spool with its configuration."""

    def __init__(self, root, programs, agent):
        self.root, self.programs, self.scheduler = root, programs, None
        self.postoffice, self.config = root / "postoffice", root / "scheduler.cf"
        self.run("scheduler", "--init", self.postoffice)
        self.config.write_text(
            f"PARAMmailqsock=UNIX:{root}/mailq\n"
            f"b/*\n\tmaxring={AGENTS} maxthr={AGENTS} overfeed=0 job-order"
            f' command="{agent} b"\n'
        )
        (root / "zmailer.conf").write_text(
            f"POSTOFFICE={self.postoffice}\nMAILSHARE={root}\nLOGDIR={root}\nMAILBIN={programs}\n"
        )
        (root / "message").write_text(f"Subject: bench\n\n{BODY}")

    def run(self, program, *arguments):
        command = [self.programs / program, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self):
        command = [self.programs / "scheduler", "-i", "-Z", self.root / "zmailer.conf", "-f", self.config]
        output = open(self.root / "output", "w")
        self.scheduler = subprocess.Popen(command, stdout=output, stderr=output)
        return time.time()

    def stop(self):
        """Ends the scheduler. Returns how long that took, in seconds."""
        begun = time.time()
        if self.scheduler:
            self.scheduler.terminate()
            self.scheduler.wait()
            self.scheduler = None
        return time.time() - begun

    def memory(self):
        """The peak of the scheduler's memory, in MB."""
        status = pathlib.Path(f"/proc/{self.scheduler.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def mailq(self, *arguments):
        return self.run("mailq", "-Z", self.root / "zmailer.conf", *arguments)

    def submit(self, addresses, *options):
        """Submits a bulk job. Returns its name."""
        recipients = self.root / "recipients"
        recipients.write_text("\n".join(addresses) + "\n")
        options = ["-Z", self.root / "zmailer.conf", "-c", "b", "-f", "list@example.org", *options]
        return self.run("submit", *options, "--bulk", recipients, "--message", self.root / "message").strip()

    def result(self, job):
        return self.postoffice / "bulk" / job / "result"

    def write_message(self, number, host, addresses):
        """Writes an ordinary message, as a router does."""
        recipients = "".join(f"r           b {host} {address} 65534\n" for address in addresses)
        control = f"i {number}\no 16\nl <{number}@x>\ns local - list@example.org 0\n{recipients}m\nSubject: bench\n\n"
        (self.postoffice / "queue" / str(number)).write_text(f"Subject: bench\n\n{BODY}")
        (self.postoffice / "transport" / str(number)).write_text(control)


@contextlib.contextmanager
def site(programs, folder, agent):
    with tempfile.TemporaryDirectory(prefix="bulk-bench-", dir=folder) as root:
        made = Site(pathlib.Path(root), programs, agent)
        try:
            yield made
        finally:
            made.stop()


def addresses_of(count):
    random.seed(1)
    host = lambda: "large" if random.random() < 0.3 else f"h{random.randrange(HOSTS)}"
    return [f"user{number}@{host()}.test" for number in range(count)]


def wait_for(condition, interval=0.02):
    while not condition():
        time.sleep(interval)
    return time.time()


def rate_of_messages(place, addresses, at_most):
    """Delivers ordinary messages. Returns their number, and the rate in recipients a second."""
    by_host, number = collections.defaultdict(list), 100000
    for address in addresses:
        by_host[address.split("@")[1]].append(address)
    for host, users in by_host.items():
        for begin in range(0, len(users), at_most):
            number += 1
            place.write_message(number, host, users[begin : begin + at_most])
    begun = place.start()
    transport = place.postoffice / "transport"
    end = wait_for(lambda: not any(transport.iterdir()))
    place.stop()
    return number - 100000, len(addresses) / (end - begun)


def rate_of_job(place, addresses, *options):
    begun = time.time()
    job = place.submit(addresses, *options)
    print(f"  submit --bulk: {len(addresses)} recipients in {time.time() - begun:.1f} s")
    begun, slowest = place.start(), 0.0

    def is_over():
        nonlocal slowest
        asked = time.time()
        with contextlib.suppress(subprocess.CalledProcessError):
            place.mailq("job", job)
            slowest = max(slowest, time.time() - asked)
        return place.result(job).exists()

    end = wait_for(is_over, 0.1)
    print(f"  memory of the scheduler {place.memory():.0f} MB, mailq job at most {slowest * 1000:.0f} ms")
    return len(addresses) / (end - begun)


def compare(programs, folder, agent, count, singles, what):
    print(f"{what}:")
    addresses = addresses_of(count)
    with site(programs, folder, agent) as place:
        job = rate_of_job(place, addresses)
    print(f"  job: {job:.0f} recipients a second")
    for at_most, some in ((1, addresses[:singles]), (PER_MESSAGE, addresses)):
        with site(programs, folder, agent) as place:
            messages, rate = rate_of_messages(place, some, at_most)
        print(
            f"  {messages} messages for at most {at_most}: {rate:.0f} recipients a second;"
            f" the job has {job / rate:.2f} of that"
        )


def urgent(programs, folder, agent, delay):
    """An urgent job for 1,000 in the middle of another one, beside the same job alone."""
    print(f"urgent job for 1000, {delay} ms a recipient, packets of 10:")
    some = [f"u{number}@h{number % 20}.test" for number in range(1000)]
    options = ["--priority", "0", "--packet-size", "10"]
    with site(programs, folder, f"AGENT_DELAY={delay * 1000} {agent}") as place:
        place.start()

        def measure():
            begun = time.time()
            job = place.submit(some, *options)
            return wait_for(lambda: place.result(job).exists(), 0.002) - begun

        measure()
        alone = sorted(measure() for _ in range(5))[2]
        bulk = place.submit(addresses_of(200 * 1000 // delay * AGENTS // 10), "--packet-size", "10")
        jobs = lambda: map(json.loads, place.mailq("jobs", "--json").splitlines())
        delivered = lambda: next(job["delivered"] for job in jobs() if job["id"] == bulk)
        wait_for(lambda: delivered() > 1000)
        before = delivered()
        inside = [measure() for _ in range(5)]
        after = delivered()
        print(f"  alone {alone:.2f} s, in the middle {sorted(inside)[2]:.2f} s: {sorted(inside)[2] / alone:.2f} times")
        print(f"  delivered of the other job meanwhile: {(after - before) / 5:.0f} recipients for each urgent job")
        time.sleep(1)
        print(f"  TERM: ended after {place.stop():.2f} s")


def main(programs, recipients="1000000", folder=None):
    programs, count = pathlib.Path(programs).resolve(), int(recipients)
    with tempfile.TemporaryDirectory() as tools:
        agent = f"{tools}/agent"
        subprocess.run(["cc", "-O2", "-o", agent, HERE / "queue/agent.c"], check=True)
        compare(programs, folder, agent, count, min(count, 20000), "agents that take no time")
        compare(programs, folder, f"AGENT_DELAY=1000 {agent}", count // 10, 20000, "1 ms a recipient")
        urgent(programs, folder, agent, 10)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
