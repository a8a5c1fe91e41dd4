"""A run of MiniGPT that is looked at, and meddled with, while it goes on."""

import os
import re
import resource

import ranks


def descendants(pid):
    found, left = [], [pid]
    while left:
        try:
            with open(f"/proc/{left[-1]}/task/{left.pop()}/children", encoding="ascii") as file:
                children = [int(word) for word in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += children
        left += children
    return found


def pid_of_rank(launcher, rank):
    """The process of one rank below `zero run`; None if it is gone."""
    for pid in descendants(launcher.pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                is_trainer = file.read().strip() == "minigpt"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if is_trainer and b"RANK=%d" % rank in variables:
            return pid
    return None


class Job:
    """A run under `zero run` that is looked at while it goes on."""

    def __init__(self, test, arguments, world):
        self.process = ranks.start(arguments, world)
        self.lines = []
        test.addCleanup(self.end)

    def wait_for(self, pattern):
        """True if a line matches before the run ends."""
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return True
        return False

    def signal(self, rank, number):
        pid = pid_of_rank(self.process, rank)
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def lift_limit(self, rank, which):
        """Whatever the process may use by its hard limit."""
        pid = pid_of_rank(self.process, rank)
        if pid is None:
            return False
        hard = resource.prlimit(pid, which)[1]
        resource.prlimit(pid, which, (hard, hard))
        return True

    def rest(self):
        """Waits for the end; returns exit code and everything that was said."""
        self.lines += self.process.stdout.readlines()
        return self.process.wait(timeout=100 * ranks.SLOWDOWN), "".join(self.lines)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
