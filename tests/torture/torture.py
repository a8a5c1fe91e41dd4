"""What the harnesses share: running the victim, judging what it left, counting, skipping."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
TIMEOUT = 60
KEPT_NAMES = re.compile(r"step_\d{12}|LATEST|\.lock|lost\+found|foreign")
VERDICT = re.compile(r"^(found|then) newest=(\w+) latest=(\w+) steps=([\d,]*)$", re.M)


class Skip(Exception):
    """This machine cannot run the harness; the text says why."""


class Failure(Exception):
    """A promise was broken; the text says which and where."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def fast_folder():
    """Memory if there is some: harnesses that only kill processes or cut copies of images need not wait for a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(command, **options):
    options.setdefault("timeout", TIMEOUT)
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace", **options)


def verdict(result, when):
    """(newest step or None, what LATEST says, list of steps) from the victim's output."""
    for found, newest, latest, steps in VERDICT.findall(result.stdout):
        if found == when:
            return (None if newest == "none" else int(newest), latest, [int(s) for s in steps.split(",") if s])
    raise Failure(f"the victim printed no verdict '{when}': exit code {result.returncode}, {tail(result)}")


def tail(result):
    return (result.stdout + result.stderr).strip()[-1500:]


def save(victim, root, step, *options, **keywords):
    """Saves undisturbed."""
    result = run([victim, "save", root, step, *options], **keywords)
    expect(result.returncode == 0, f"an undisturbed save failed: {tail(result)}")
    return result


def make_base(victim, root, *options):
    """Three saves, so that the fourth has something to remove."""
    for step in (1, 2, 3):
        save(victim, root, step, *options)


def expect_recovers(victim, root, may_be_newest, note=""):
    """Nothing is torn, the newest is one of those, and the next save works and leaves no rubbish. Returns the newest."""
    result = run([victim, "recover", root, 5])
    expect("torn:" not in result.stdout, f"a checkpoint is torn{note}: {tail(result)}")
    newest, _, steps = verdict(result, "found")
    expect(newest in may_be_newest, f"the newest is {newest}, not one of {may_be_newest}{note}: {tail(result)}")
    expect(3 in steps, f"the old checkpoint is gone{note}: {tail(result)}")
    expect(result.returncode == 0, f"the next save failed{note}: {tail(result)}")
    then, latest, steps = verdict(result, "then")
    expect((then, latest, len(steps)) == (5, "5", 2), f"the next save is not the newest{note}: {tail(result)}")
    left = [name for name in os.listdir(root) if not KEPT_NAMES.fullmatch(name)]
    expect(not left, f"leftovers stay{note}: {left}")
    return newest


class Progress:
    """One line on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.begin, self.last = total, 0, time.monotonic(), 0.0

    def advance(self):
        self.done += 1
        now = time.monotonic()
        terminal = sys.stdout.isatty()
        if now - self.last < (0.2 if terminal else 10):
            return
        self.last = now
        text = f"{self.done} of {self.total} points, {now - self.begin:.0f} s"
        print("\r" + text if terminal else text, end="" if terminal else "\n", flush=True)


def run_points(points, attempt, jobs):
    """Calls attempt(point, folder) for each in a folder of its own; returns [(point, result)], failures printed last."""
    results, failures = [], []
    progress = Progress(len(points))

    def one(point):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="torture-", dir=fast_folder()))
        try:
            return attempt(point, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(one, point): point for point in points}
        for future in concurrent.futures.as_completed(futures):
            point = futures[future]
            try:
                results.append((point, future.result()))
            except (Failure, subprocess.TimeoutExpired) as failure:
                results.append((point, failure))
                failures.append(f"{point}: {failure}")
            progress.advance()
    if sys.stdout.isatty():
        print()
    for failure in failures[:20]:
        print("FAILED", failure)
    return results, failures


def main(body):
    """Exit codes: 0, 1 for a broken promise, 77 if it cannot be tried here."""
    try:
        sys.exit(body())
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except Failure as failure:
        print(f"FAILED {failure}")
        sys.exit(1)
