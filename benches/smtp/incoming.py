#!/usr/bin/env python3
"""Mail that comes and leaves by SMTP, beside Postfix.

    benches/smtp/incoming.py [--rounds 5] [--messages 5000] [--sessions 20,1] [--folder .] [--only NAME]

Postfix's smtp-source sends messages of 2 kB to

    smtpserver, router, scheduler and agents smtp,  or  Postfix's smtpd, cleanup, qmgr and smtp,

and they send them to smtp-sink, all on this machine. Nothing is tuned for speed: both sync as they do by
default. Each round measures both, one after the other, in changing order, and then what the file system
itself allows (limit.c). Cases are combinations of

    sessions    connections of smtp-source at a time, one for each message or (kept) one for all
    relayed     recipients of another host's domain, which are not checked
    checked     virtual addresses at a domain of this host; others are refused while the client is there

Printed are medians of the ratios of the rounds, then messages a second from the start of smtp-source to the
last message that the sink has taken, and the processor time of all processes but source and sink.

Needs a release build, a C compiler, root, and Postfix unpacked into target/peers (by .ci/run test) or
$ZSCHED_PEERS. PROGRAMS names another folder with our programs.
"""

import argparse
import json
import os
import pathlib
import pwd
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import Sink, free_port, processor_time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", SOURCE / "target/release")).absolute()
PEERS = pathlib.Path(os.environ.get("ZSCHED_PEERS", SOURCE / "target/peers")).resolve()
LIBRARIES = PEERS / "usr/lib/postfix"
SIZE = 2048
SINK_PORT = free_port()
DEADLINE = 60


def wait_until(what, condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {DEADLINE} s")
        time.sleep(0.01)


def files(*folders):
    return sum(len(names) for folder in folders for _, _, names in os.walk(folder))


class Ours:
    """Server, router, scheduler and agents."""

    name = "zsched"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.office = self.folder / "postoffice"
        self.port = free_port()
        for part in ("transport", "queue", "router", "public", "postman", "deferred"):
            (self.office / part).mkdir(parents=True)
        (self.folder / "zmailer.conf").write_text(
            f"POSTOFFICE={self.office}\nZCONFIG={self.folder}/zmailer.conf\nLOGDIR={self.folder}\n")
        (self.folder / "scheduler.cf").write_text(
            f'PARAMmailqsock="UNIX:{self.office}/mailq"\n*/*\n\tinterval=1m expiry=1d\n'
            f'\tmaxta=100 maxchannel=100 maxring=20 maxthr=20\n\tcommand="{PROGRAMS}/smtp -c smtp"\n')
        (self.folder / "virtual").write_text("user@here.test: user@other.test\n")
        (self.folder / "router.cf").write_text(
            f"hostname mx.test\nvirtual {self.folder}/virtual\n"
            f"route other.test smtp [127.0.0.1]:{SINK_PORT}\n")
        (self.folder / "smtpserver.cf").write_text(f"listen 127.0.0.1:{self.port} smtp\n")
        self.children = []

    def start(self):
        zenv = ["-Z", self.folder / "zmailer.conf"]
        for command in (
            ["scheduler", "-i", *zenv, "-f", self.folder / "scheduler.cf"],
            ["router", "-i", *zenv, "-f", self.folder / "router.cf"],
            ["smtpserver", "-i", *zenv, "-f", self.folder / "smtpserver.cf", "-r", self.folder / "router.cf"],
        ):
            log = open(self.folder / f"{command[0]}.log", "w")
            command[0] = PROGRAMS / command[0]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.children.append(child)
        for part in ("scheduler", "router", "smtpserver"):
            log = self.folder / f"{part}.log"
            wait_until(f"{part} starts", lambda: "started" in log.read_text())

    def processor_time(self):
        return sum(processor_time(child.pid) for child in self.children)

    def left(self):
        return files(*(self.office / part for part in ("router", "queue", "transport")))

    def stop(self):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
            child.wait()


class Postfix:
    """Postfix with folders of its own, as Debian configures it. Its parts run as the user daemon."""

    name = "Postfix"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.etc, self.queue = self.folder / "etc", self.folder / "queue"
        self.port = free_port()
        os.chmod(self.folder, 0o755)
        for part in ("etc", "data", "queue", "queue/pid"):
            (self.folder / part).mkdir()
        shutil.chown(self.folder / "data", "daemon")
        for part in ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "maildrop",
                     "private", "public", "saved", "trace"):
            (self.queue / part).mkdir()
            shutil.chown(self.queue / part, "daemon")
        (self.etc / "main.cf").write_text(
            f"compatibility_level=3.6\nqueue_directory={self.queue}\ndata_directory={self.folder}/data\n"
            f"daemon_directory={LIBRARIES}/sbin\ncommand_directory={PEERS}/usr/sbin\n"
            f"mail_owner=daemon\nsetgid_group=mail\n"
            f"import_environment=MAIL_CONFIG LANG=C LD_LIBRARY_PATH={LIBRARIES}\n"
            "myhostname=mx.test\nmynetworks=127.0.0.0/8\ninet_protocols=ipv4\ninet_interfaces=127.0.0.1\n"
            "mydestination=\nalias_maps=\nlocal_recipient_maps=\n"
            f"virtual_alias_domains=here.test\nvirtual_alias_maps=texthash:{self.etc}/virtual\n"
            f"transport_maps=texthash:{self.etc}/transport\nsmtp_dns_support_level=disabled\n"
            "smtpd_relay_restrictions=permit_mynetworks,reject_unauth_destination\n"
            f"smtp_host_lookup=native\nmaillog_file_prefixes={self.folder}\nmaillog_file={self.folder}/log\n")
        (self.etc / "virtual").write_text("user@here.test user@other.test\n")
        (self.etc / "transport").write_text(f"other.test smtp:[127.0.0.1]:{SINK_PORT}\n")
        # The services of Debian's master.cf that are of use here, without chroot.
        (self.etc / "master.cf").write_text(
            f"127.0.0.1:{self.port} inet n - n - - smtpd\ncleanup unix n - n - 0 cleanup\n"
            "qmgr unix n - n 300 1 qmgr\nrewrite unix - - n - - trivial-rewrite\nbounce unix - - n - 0 bounce\n"
            "defer unix - - n - 0 bounce\ntrace unix - - n - 0 bounce\nsmtp unix - - n - - smtp\n"
            "tlsmgr unix - - n 1000? 1 tlsmgr\nanvil unix - - n - 1 anvil\nscache unix - - n - 1 scache\n"
            "proxymap unix - - n - - proxymap\nerror unix - - n - - error\nretry unix - - n - - error\n"
            "postlog unix-dgram n - n - 1 postlogd\n")

    def start(self):
        self.child = subprocess.Popen([LIBRARIES / "sbin/master", "-c", self.etc, "-d"], stdin=subprocess.DEVNULL,
                                      env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)})
        log = self.folder / "log"
        wait_until("Postfix starts", lambda: log.exists() and "daemon started" in log.read_text())

    def processor_time(self):
        return processor_time(self.child.pid)

    def left(self):
        return files(*(self.queue / part for part in ("incoming", "active", "deferred")))

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


def measure(kind, options, sessions, is_kept, domain):
    """Messages a second and seconds of processor time."""
    with tempfile.TemporaryDirectory(prefix="smtp-bench", dir=options.folder) as place:
        site = kind(place)
        os.sync()
        sink = Sink(SINK_PORT, options.messages)
        try:
            site.start()
            before = site.processor_time()
            began = time.monotonic()
            subprocess.run(
                [PEERS / "usr/sbin/smtp-source", *(["-d"] if is_kept else []), "-s", str(sessions),
                 "-m", str(options.messages), "-l", str(SIZE), "-f", "sender@client.test",
                 "-t", f"user@{domain}.test", f"127.0.0.1:{site.port}"],
                check=True, env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)})
            accepted = time.monotonic() - began
            taken = sink.wait() - began
            wait_until("the queue is empty", lambda: site.left() == 0)
            seconds = site.processor_time() - before
        except BaseException:
            subprocess.run(["tail", "-n", "5", *pathlib.Path(place).glob("*log")], stdout=sys.stderr)
            raise
        finally:
            site.stop()
            sink.stop()
    return options.messages / taken, seconds / options.messages * 1e6, options.messages / accepted


def file_system(options, program, processes):
    """Messages a second that the file system allows."""
    with tempfile.TemporaryDirectory(prefix="smtp-bench", dir=options.folder) as place:
        run = subprocess.run([program, str(options.messages), str(processes)], cwd=place, check=True,
                             capture_output=True)
        return json.loads(run.stdout)["msgs_per_s"]


def median_row(case, rounds):
    ours, theirs, limits = ([one[name] for one in rounds] for name in ("zsched", "Postfix", "limit"))

    def median(values):
        return statistics.median(values)

    def ratio(at):
        return median(one[at] / other[at] for one, other in zip(ours, theirs))

    of_limit = median(one[0] / limit for one, limit in zip(ours, limits))
    numbers = [f"{median(one[0] for one in side):,.0f}" for side in (ours, theirs)]
    costs = [f"{median(one[1] for one in side):,.0f}" for side in (ours, theirs)]
    return (f"| {case} | {ratio(0):.2f} | {ratio(1):.2f} | {of_limit:.2f} | {' / '.join(numbers)} | "
            f"{median(limits):,.0f} | {' / '.join(costs)} |")


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--messages", type=int, default=5000)
    words.add_argument("--sessions", default="20,1")
    words.add_argument("--domains", default="other,here", help="other is relayed, here is checked")
    words.add_argument("--connections", default="each,kept")
    words.add_argument("--folder", type=os.path.abspath, default=".")
    words.add_argument("--only", choices=["zsched", "Postfix"])
    options = words.parse_args()
    pwd.getpwnam("daemon")
    os.environ["PATH"] = f"{PEERS}:{os.environ['PATH']}"
    rows = []
    with tempfile.TemporaryDirectory() as build:
        limit = pathlib.Path(build) / "limit"
        subprocess.run(["cc", "-O2", "-o", limit, SOURCE / "benches/smtp/limit.c"], check=True)
        for sessions in map(int, options.sessions.split(",")):
            for domain in options.domains.split(","):
                for connections in options.connections.split(","):
                    named = {"other": "relayed", "here": "checked"}[domain]
                    case = f"{sessions} session{'s' * (sessions > 1)}, {connections}, {named}"
                    rounds = []
                    for number in range(options.rounds):
                        kinds = [kind for kind in (Ours, Postfix) if options.only in (None, kind.name)]
                        found = {}
                        for kind in kinds if number % 2 == 0 else kinds[::-1]:
                            found[kind.name] = measure(kind, options, sessions, connections == "kept", domain)
                        found["limit"] = file_system(options, limit, sessions)
                        rounds.append(found)
                        shown = ", ".join(f"{name} {'/'.join(f'{number:.0f}' for number in value)}"
                                          for name, value in found.items() if name != "limit")
                        print(f"{case}: {shown}, limit {found['limit']}, load {os.getloadavg()[0]:.1f}",
                              file=sys.stderr, flush=True)
                    if options.only is None:
                        rows.append(median_row(case, rounds))
    print("| sessions, connections, recipients | ratio of messages a second | ratio of processor time | of the limit | "
          "messages a second, zsched / Postfix | limit | µs a message, zsched / Postfix |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))


main()
