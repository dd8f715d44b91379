#!/usr/bin/env python3
"""The agent smtp beside Postfix: mail from a full queue to Postfix's smtp-sink.

    benches/smtp/compare.py [--rounds 3] [--messages 20000] [--recipients 10000] [--folder /dev/shm]

Each round measures both, one after the other, in changing order: messages of 4 kB for 20 domains, then
one message for many recipients of one host. Printed are messages (or recipients) a second, from the start
of the scheduler, or of Postfix's master, to the last message that the sink has taken; the processor time
of all processes but the sink, for each; and the ratios of the rounds.

Needs a release build (cargo build --release --workspace) and, as root, Postfix (Debian package postfix;
its own files are not touched). PROGRAMS names another folder with our programs.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import Sink, free_port, processor_time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", SOURCE / "target/release"))
HOSTS = 20
SIZE = 4096
PORT = free_port()


def body():
    line = "x" * 71 + "\n"
    return (line * (SIZE // len(line) + 1))[:SIZE - 1] + "\n"


class Ours:
    """Our scheduler and its agent."""

    name = "zsched"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.office = self.folder / "postoffice"
        for part in ("transport", "queue", "router", "public", "postman", "deferred"):
            (self.office / part).mkdir(parents=True)
        zenv = f"POSTOFFICE={self.office}\nZCONFIG={self.folder}/zmailer.conf\n"
        (self.folder / "zmailer.conf").write_text(zenv)
        (self.folder / "scheduler.cf").write_text(
            f'PARAMmailqsock="UNIX:{self.office}/mailq"\n*/*\n\tinterval=1m expiry=1d\n'
            f'\tmaxta=100 maxchannel=100 maxring=100\n\tcommand="{PROGRAMS}/smtp -c smtp"\n')

    def fill(self, messages, recipients):
        for number in range(messages):
            name = self.office / "queue" / "new"
            head = f"Message-ID: <{number}@bench.test>\nFrom: <a@bench.test>\nSubject: {number}\n"
            name.write_text(f"{head}\n{body()}")
            inode = str(name.stat().st_ino)
            name.rename(self.office / "queue" / inode)
            host = f"[127.0.0.{number % HOSTS + 1}]:{PORT}"
            lines = "".join(f"r           smtp {host} user{at}@d{number % HOSTS}.test 0\n"
                            for at in range(recipients))
            text = (f"i {inode}\no {len(head) + 1}\nl <{number}@bench.test>\n"
                    f"s local - a@bench.test 0\n{lines}m\n{head}\n")
            control = self.office / "transport" / "new"
            control.write_text(text)
            control.rename(self.office / "transport" / inode)

    def start(self):
        log = open(self.folder / "log", "w")
        command = [PROGRAMS / "scheduler", "-i", "-Z", self.folder / "zmailer.conf",
                   "-f", self.folder / "scheduler.cf", "-L", self.folder / "scheduler.log"]
        self.child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        return self.child.pid

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


class Postfix:
    """Postfix with a folder of its own."""

    name = "Postfix"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.etc = self.folder / "etc"
        self.etc.mkdir()
        for part in ("spool", "data"):
            (self.folder / part).mkdir()
        shutil.chown(self.folder / "data", "postfix")
        os.chmod(self.folder, 0o755)
        hosts = "".join(f"d{at}.test smtp:[127.0.0.{at + 1}]:{PORT}\n" for at in range(HOSTS))
        (self.etc / "transport").write_text(hosts)
        (self.etc / "main.cf").write_text(
            f"queue_directory={self.folder}/spool\ndata_directory={self.folder}/data\n"
            "compatibility_level=3.6\nmyhostname=client.test\nmydestination=\nmynetworks=127.0.0.0/8\n"
            f"transport_maps=texthash:{self.etc}/transport\ninet_protocols=ipv4\nalias_maps=\n"
            "in_flow_delay=0\nsmtpd_recipient_limit=100000\nsmtpd_relay_restrictions=permit_mynetworks,reject\n"
            "smtp_dns_support_level=disabled\nsmtp_host_lookup=native\nmaillog_file=\n")
        master = open("/etc/postfix/master.cf").read()
        # No SMTP server but one on a UNIX socket, through which the queue is filled.
        master = re.sub(r"^smtp +inet.*$", "in unix n - n - - smtpd", master,
                        flags=re.M)
        self.master = re.sub(r"^(\S+ +\S+ +\S+ +\S+ +)y( )", r"\1n\2", master, flags=re.M)

    def command(self, *arguments):
        ended = subprocess.run(["postfix", "-c", self.etc, *arguments], capture_output=True)
        if ended.returncode:
            sys.exit(f"postfix {arguments[0]}: {ended.stderr.decode()}")

    def begin(self, master):
        (self.etc / "master.cf").write_text(master)
        self.command("start")
        return int((self.folder / "spool/pid/master.pid").read_text())

    def fill(self, messages, recipients):
        self.begin("\n".join(line for line in self.master.split("\n") if not line.startswith("qmgr")))
        share = messages // min(HOSTS, messages)
        for at in range(min(HOSTS, messages)):
            count = [] if recipients == 1 else ["-r", str(recipients)]
            subprocess.run(["smtp-source", "-s", "4", "-m", str(share), "-l", str(SIZE), *count,
                            "-f", "a@bench.test", "-t", f"user@d{at}.test",
                            f"unix:{self.folder}/spool/public/in"], check=True)
        self.command("stop")

    def start(self):
        return self.begin(self.master)

    def stop(self):
        self.command("stop")


def measure(kind, folder, messages, recipients, transactions):
    with tempfile.TemporaryDirectory(prefix="smtp-bench", dir=folder) as place:
        site = kind(place)
        site.fill(messages, recipients)
        os.sync()
        sink = Sink(PORT, transactions)
        try:
            pid = site.start()
            began = time.monotonic()
            taken = sink.wait() - began
            seconds = processor_time(pid)
        finally:
            site.stop()
            sink.stop()
    count = messages * recipients
    return count / taken, seconds / count * 1e6


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--messages", type=int, default=20000)
    words.add_argument("--recipients", type=int, default=10000)
    words.add_argument("--folder", type=os.path.abspath, default="/dev/shm")
    words.add_argument("--only", choices=["zsched", "Postfix"])
    options = words.parse_args()
    # Recipients of a transaction: recipients of [session], and default_destination_recipient_limit.
    limits = {"zsched": 100, "Postfix": 50}
    for what, messages, recipients in [
        (f"{options.messages} messages for {HOSTS} domains", options.messages, 1),
        (f"one message for {options.recipients} recipients", 1, options.recipients),
    ]:
        if messages * recipients == 0:
            continue
        print(what)
        ratios = []
        for number in range(options.rounds):
            found = {}
            kinds = [kind for kind in (Ours, Postfix) if options.only in (None, kind.name)]
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                transactions = messages * -(-recipients // limits[kind.name])
                rate, cost = measure(kind, options.folder, messages, recipients, transactions)
                found[kind.name] = (rate, cost)
                print(f"  {kind.name:8} {rate:8.0f} a second {cost:8.1f} us of processor time each, "
                      f"load {os.getloadavg()[0]:.1f}", flush=True)
            if len(found) == 2:
                (rate, cost), (other_rate, other_cost) = found["zsched"], found["Postfix"]
                ratios.append((rate / other_rate, cost / other_cost))
                print(f"  ratio    {ratios[-1][0]:8.2f}          {ratios[-1][1]:8.2f}", flush=True)
        if ratios:
            rate, cost = (statistics.median(column) for column in zip(*ratios))
            print(f"  median   {rate:8.2f}          {cost:8.2f}")


main()
