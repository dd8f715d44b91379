"""A spool with a scheduler that is measured, and the C programs beside it."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).parent
HOSTS = 100
AGENTS = 20
TICKS = os.sysconf("SC_CLK_TCK")
DEADLINE = 600


def compile_tools(folder):
    """Compiles the C programs, and returns the folder that they are in."""
    for name, more in (("agent", []), ("limit", []), ("submit", ["-pthread"])):
        source, program = HERE / f"{name}.c", folder / name
        subprocess.run(["cc", "-O2", "-Wall", *more, "-o", program, source], check=True)
    return folder


@contextlib.contextmanager
def scratch(parent):
    """A temporary folder; removed in the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="zsched-bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def limit(tools, parent, messages, processes, *options):
    """What the file system allows: the output of `limit`, as a dictionary."""
    with scratch(parent) as folder:
        command = [tools / "limit", str(messages), str(processes), *options]
        output = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout
        return json.loads(output)


class Site:
    """A spool, its configuration, and the logs, which are on the disk of the programs."""

    def __init__(self, root, programs, tools, logs, *, is_hashed=False, agents=AGENTS, agent=None):
        self.programs, self.tools, self.logs = programs, tools, logs
        self.hash = ["--hash"] if is_hashed else []
        self.postoffice = root / "postoffice"
        subprocess.run([programs / "scheduler", "--init", self.postoffice], check=True, stderr=subprocess.DEVNULL)
        self.count = root / "count"
        self.count.write_bytes(bytes(8))
        self.times = root / "times"
        agent = agent or f"AGENT_COUNT={self.count} {tools}/agent $channel"
        self.config, self.zenv = root / "scheduler.cf", root / "zmailer.conf"
        self.config.write_text(
            f'PARAMmailqsock = "UNIX:{root}/mailq"\n'
            f"*/*\n\tmaxta={agents} maxring={agents} overfeed=150 expiry=3d idlemax=10m\n"
            f'\tcommand="{agent}"\n'
        )
        self.zenv.write_text(
            f"POSTOFFICE={self.postoffice}\nMAILBIN={programs}\nMAILSHARE={root}\nLOGDIR={logs}\n"
            f"SCHEDULERNOTIFY={self.postoffice}/.scheduler.notify\nPATH={os.environ['PATH']}\n"
        )

    def submit(self, messages, *options):
        """Starts `submit` in the spool."""
        command = [self.tools / "submit", str(messages), str(HOSTS), *self.hash, *options]
        return subprocess.Popen(command, cwd=self.postoffice)

    def fill(self, messages, hosts=HOSTS):
        """Fills the spool, and syncs it."""
        command = [self.tools / "submit", str(messages), str(hosts), *self.hash]
        subprocess.run(command, cwd=self.postoffice, check=True)
        os.sync()

    def note_times(self):
        """Lets the agents note when they get and end their jobs."""
        self.times.mkdir(exist_ok=True)
        text = self.config.read_text()
        self.config.write_text(text.replace("AGENT_COUNT", f"AGENT_TIMES={self.times} AGENT_COUNT"))

    def start(self, *options):
        return Scheduler(self, options)

    def delivered(self):
        return int.from_bytes(self.count.read_bytes(), "little")

    def is_empty(self):
        """Returns true if no control file and no message file is left."""
        return not any(has_file(self.postoffice / folder) for folder in ("transport", "queue"))


def has_file(folder):
    """Returns true if there is a file with a number as its name below a folder.

    It stops at the first one: a whole list of a full folder would delay those that remove from it.
    """
    with os.scandir(folder) as entries:
        return any(has_file(entry) if entry.is_dir() else entry.name[0].isdigit() for entry in entries)


class Scheduler:
    """A running scheduler. It is ended when the `with` block ends."""

    def __init__(self, site, options):
        self.site = site
        command = [site.programs / "scheduler", "-i", "-Z", site.zenv, "-f", site.config]
        command += ["-L", site.logs / "scheduler", *(["-H"] if site.hash else []), *options]
        self.started = time.monotonic()
        with open(site.logs / "output", "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def age(self):
        return time.monotonic() - self.started

    def wait_for(self, condition, interval):
        """Waits until a condition holds, and returns the age of the scheduler then."""
        while not condition():
            if self.process.poll() is not None:
                raise RuntimeError(f"the scheduler ended with status {self.process.returncode}")
            if self.age() > DEADLINE:
                raise RuntimeError("the scheduler does not get through")
            time.sleep(interval)
        return self.age()

    def wait_until_listening(self):
        def is_listening():
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(str(self.site.postoffice / ".scheduler.control")) == 0

        self.wait_for(is_listening, 0.005)

    def processor_seconds(self):
        """Processor time of the scheduler, that of its worker for the log, and that of its agents."""
        own = pathlib.Path(f"/proc/{self.process.pid}")
        log = 0
        for task in (own / "task").iterdir():
            # A worker may end meanwhile.
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().strip() == "log":
                    log += run_seconds(task)
        agents = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if fields_of(process / "stat")[1] == str(self.process.pid):
                    agents += run_seconds(process)
        return processor_seconds(own), log, agents

    def memory(self):
        """Resident memory now and at its peak, in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        return tuple(int(facts[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))

    def ask(self, request):
        """Asks for an object of JSON, over the control socket."""
        return self.ask_all(request)[0]

    def ask_all(self, request):
        """Asks for any number of objects of JSON, over the control socket."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(DEADLINE)
            client.connect(str(self.site.postoffice / ".scheduler.control"))
            lines = client.makefile("rw", encoding="utf-8")
            lines.write(f"{request}\n")
            lines.flush()
            answer = next(line for line in lines if line[0] in "+-")
            if answer.startswith("-"):
                raise RuntimeError(f"{request}: {answer}")
            objects = itertools.takewhile(lambda line: line != ".\n", lines)
            return [json.loads(line) for line in objects]


def fields_of(stat):
    """The fields of a `stat` file of /proc, from the state on."""
    return stat.read_text().rsplit(")", 1)[1].split()


def processor_seconds(process):
    """User and system time of all threads of a process, given by its folder in /proc."""
    fields = fields_of(process / "stat")
    return (int(fields[11]) + int(fields[12])) / TICKS


def run_seconds(task):
    """Processor time of one thread, which is more exact than that in `stat`."""
    return int((task / "schedstat").read_text().split()[0]) / 1e9
