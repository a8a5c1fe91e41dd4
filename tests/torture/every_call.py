#!/usr/bin/env python3
"""A save is killed before each of its system calls, and each of them fails in every way that matters.

strace counts calls per name ("when=K" is the K-th call of that name), so the calls of one undisturbed save are counted
per name first, and the number of points that were run must be the sum of the counts. Calls before the victim's own
first one are the loader's: the victim is killed there, too, but not made to fail.
"""

import argparse
import collections
import errno
import os
import pathlib
import re
import shutil
import tempfile

import torture
from torture import Skip, expect

MARK = "checkpoint_victim_begins"
LINE = re.compile(r"^\d+ +([a-z0-9_]+)\(")
REFUSED = re.compile(r"refused (?P<operation>[^:]+): (?P<text>[^:]+) \(errno (?P<code>\d+)\): (?P<path>/.*)")
# Neither returns to the victim, or there is no "before".
NOT_TRIED = {"execve", "exit_group", "exit"}
FILE_CALLS = {"openat", "open", "close", "pwrite64", "write", "pread64", "read", "fsync", "fdatasync", "ftruncate", "fallocate",
              "flock", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "getdents64",
              "newfstatat", "fstat", "lstat", "stat", "statfs", "fstatfs", "getcwd"}

OPENED = re.compile(r"O_WRONLY.* = (\d+)$")
CLOSED = re.compile(r"^close\((\d+)\)")

Call = collections.namedtuple("Call", "name index text")
Point = collections.namedtuple("Point", "name index fault persistent text")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("victim")
    parser.add_argument("--fast", action="store_true", help="a subset: death and EIO at calls that change something, other errors spread")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="only print the calls")
    return parser.parse_args()


def require_strace():
    if shutil.which("strace") is None:
        raise Skip("there is no strace here")
    result = torture.run(["strace", "-f", "-o", os.devnull, "-e", "trace=getpid", "-e", "inject=getpid:error=EPERM", "true"])
    if result.returncode != 0:
        raise Skip(f"strace cannot trace or change calls here: {torture.tail(result)}")


def trace(victim, folder):
    """All calls of an undisturbed save in order, and the number of those of each name before the mark."""
    torture.make_base(victim, folder / "root")
    result = torture.run(["strace", "-f", "-o", folder / "trace", victim, "save", folder / "root", 4])
    expect(result.returncode == 0, f"a traced save failed: {torture.tail(result)}")
    calls, before, counts, written = [], {}, collections.Counter(), set()
    for line in (folder / "trace").read_text(errors="replace").splitlines():
        match = LINE.match(line)
        if not match:
            continue
        name = match.group(1)
        if MARK in line:
            before = dict(counts)
        counts[name] += 1
        text = line.split(" ", 1)[1].strip()
        opened, closed = OPENED.search(text), CLOSED.match(text)
        if opened:
            written.add(opened[1])
        if closed and closed[1] in written:
            written.remove(closed[1])
            text += " of a file that was written"
        calls.append(Call(name, counts[name], text[:150]))
    expect(before, "the trace does not show where the victim begins")
    return calls, before


def deaths(calls, names):
    return [Point(call.name, call.index, "KILL", False, call.text) for call in calls if call.name in names]


def errors(calls, before):
    """Every file call after the mark, in every way; memory that cannot be had."""
    points = []
    for call in calls:
        if call.index <= before.get(call.name, 0):
            continue
        if call.name in FILE_CALLS:
            for code in ("ENOSPC", "EIO", "EINTR"):
                for persistent in (False, True):
                    points.append(Point(call.name, call.index, code, persistent, call.text))
        if call.name == "mmap":  # Not brk: a failing one gives the old end, which strace cannot know.
            points.append(Point(call.name, call.index, "ENOMEM", True, call.text))
    return points


def inject(victim, base, point, folder):
    """Runs save 4 with the fault; returns its result and its root."""
    root = folder / "root"
    shutil.copytree(base, root)
    when = f"{point.index}{'+' if point.persistent else ''}"
    fault = "signal=KILL" if point.fault == "KILL" else f"error={point.fault}"
    result = torture.run(["strace", "-f", "-o", os.devnull, "-e", f"trace={point.name}",
                          "-e", f"inject={point.name}:{fault}:when={when}", victim, "save", root, 4])
    return result, root


def attempt_death(victim, base, point, folder):
    result, root = inject(victim, base, point, folder)
    expect(result.returncode in (-9, 137), f"the victim was not killed but ended with {result.returncode}: {torture.tail(result)}")
    return torture.expect_recovers(victim, root, (3, 4))


def is_harmless(point):
    """Calls whose failure changes nothing: the close of what was only read, unlocking before the close of the lock, what
    libhdf5 can do without, and the victim's own output."""
    if point.name == "close":
        return not point.text.endswith("that was written")
    return point.name in ("getcwd", "mmap") or "LOCK_UN" in point.text or point.text.startswith("newfstatat(1,")


def expect_named(text, point, root):
    """The operation, what the system said and the path are in the message."""
    if point.fault == "ENOMEM":
        expect("bad_alloc" in text or "errno 12" in text or REFUSED.search(text), f"the error does not say that memory is missing: {text}")
        return
    match = REFUSED.search(text)
    expect(match, f"the error does not name operation, errno and path: {text}")
    code = getattr(errno, point.fault)
    expect(int(match["code"]) == code, f"the error names another errno: {text}")
    expect(match["text"] == os.strerror(code), f"the error lacks the system's words: {text}")
    expect(str(root) in match["path"], f"the error names another path: {text}")


def attempt_error(victim, base, point, folder):
    result, root = inject(victim, base, point, folder)
    expect(result.returncode in (0, 3), f"the victim ended with {result.returncode}: {torture.tail(result)}")
    warned = [line for line in result.stdout.splitlines() if line.startswith("warning: ")]
    unknown = "did not confirm" in result.stdout
    if point.name == "write":  # Its own report: there is nothing left to read.
        return torture.expect_recovers(victim, root, (4,))
    if result.returncode == 3:
        error = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
        expect(error, f"an exit code of 3 without a message: {torture.tail(result)}")
        expect_named(error[0], point, root)
        torture.expect_recovers(victim, root, (3, 4) if unknown else (3,), f" after '{error[0]}'")
        return "in doubt" if unknown else "refused"
    for line in warned:
        expect_named(line, point, root)
    expect(warned or point.fault == "EINTR" or is_harmless(point), "an error was swallowed: the save says that all is well")
    torture.expect_recovers(victim, root, (4,))
    return "warned" if warned else "saved"


def thin(points, wanted):
    """Every n-th, so that all names and faults stay."""
    groups = collections.defaultdict(list)
    for point in points:
        groups[(point.name, point.fault, point.persistent)].append(point)
    share = max(1, len(points) // wanted)
    return [point for group in groups.values() for point in group[:: max(1, min(share, len(group)))]]


CHANGES = {"pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir",
           "ftruncate", "fallocate", "flock"}


def choose(calls, before, fast):
    names = {call.name for call in calls if call.index > before.get(call.name, 0)} - NOT_TRIED
    if not fast:
        points = deaths(calls, names)
        count = sum(call.name in names for call in calls)
        expect(len(points) == count, f"{len(points)} deaths for {count} calls")
        return points + errors(calls, before)
    every = errors(calls, before)
    chosen = [point for point in every if point.name in CHANGES and point.fault == "EIO" and not point.persistent]
    return deaths(calls, names & CHANGES) + chosen + thin([point for point in every if point not in chosen], 60)


def report(results):
    table = collections.Counter()
    for point, outcome in results:
        outcome = "FAILED" if isinstance(outcome, Exception) else outcome
        fault = point.fault + (" from then on" if point.persistent else "")
        table[(fault, f"newest is {outcome}" if point.fault == "KILL" else outcome)] += 1
    for (fault, outcome), count in sorted(table.items(), key=str):
        print(f"  {fault:20} {outcome:14} {count:5}")


def body():
    arguments = parse_arguments()
    require_strace()
    with tempfile.TemporaryDirectory(prefix="torture-", dir=torture.fast_folder()) as name:
        folder = pathlib.Path(name)
        calls, before = trace(arguments.victim, folder)
        if arguments.list:
            print("\n".join(f"{call.name} {call.index}: {call.text}" for call in calls))
            return 0
        base = folder / "base"
        torture.make_base(arguments.victim, base)
        points = choose(calls, before, arguments.fast)
        print(f"{len(calls)} calls in a save, {len(points)} points")

        def attempt(point, at):
            return (attempt_death if point.fault == "KILL" else attempt_error)(arguments.victim, base, point, at)

        results, failures = torture.run_points(points, attempt, arguments.jobs)
        report(results)
        expect(len(results) == len(points), f"{len(points)} points, but {len(results)} results")
        print(f"{len(results)} points run, {len(failures)} failed")
        return 1 if failures else 0


if __name__ == "__main__":
    torture.main(body)
