#!/usr/bin/env python3
"""The power goes before each change that a save makes, on a real ext4.

The file system lies in an image behind a loop device. A copy of the image at one instant holds what the file system has
sent to its disk by then, and nothing else: pages that nobody synced and a journal that was not committed are missing
from it, as after a power cut. Mounting the copy replays the journal; then the victim judges what is left.

In half of the runs another process writes and syncs a file of its own just before the cut: that commits the journal, so
that renames reach the disk before the data of the files they name, unless those were synced.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import torture
from torture import Skip, expect, run

IMAGE_BYTES = 16 << 20
# No commit but those that somebody asks for.
MOUNT = "loop,commit=300"
INSIDE = "--in-namespace"

Variant = collections.namedtuple("Variant", "name victim_options foreign_sync mount_options hint_blocked")


def variant(name, *victim_options, foreign=False, mount="", blocked=False):
    return Variant(name, victim_options, foreign, mount, blocked)


SOUND = [
    variant("as it is"),
    variant("another process syncs", foreign=True),
    variant("LATEST cannot be written", blocked=True),
    variant("another process syncs, data=writeback", foreign=True, mount=",data=writeback"),
    variant("another process syncs, data=journal", foreign=True, mount=",data=journal"),
]
MUTANTS_TORN = [
    variant("no fsync of files", "--no-file-fsync"),
    variant("no fsync of files, another process syncs", "--no-file-fsync", foreign=True),
    variant("no fsync at all, another process syncs", "--no-file-fsync", "--no-directory-fsync", foreign=True),
]
MUTANTS_LOST = [
    variant("no fsync of directories", "--no-directory-fsync"),
    variant("no fsync of directories, LATEST cannot be written", "--no-directory-fsync", blocked=True),
    variant("no fsync at all", "--no-file-fsync", "--no-directory-fsync"),
]


class Mounted:
    """An image, mounted for as long as the block lasts."""

    def __init__(self, image, folder, options=""):
        self.image, self.folder, self.options = image, folder, options

    def __enter__(self):
        result = run(["mount", "-o", MOUNT + self.options, self.image, self.folder])
        expect(result.returncode == 0, f"mount failed: {torture.tail(result)}")
        return self.folder / "root"

    def __exit__(self, *_):
        result = run(["umount", self.folder])
        expect(result.returncode == 0, f"umount failed: {torture.tail(result)}")


class Laboratory:
    """Images in a folder, preferably in memory: the harness itself must not wait for a disk."""

    def __init__(self, victim, folder):
        self.victim, self.folder = victim, folder
        self.mount_point = folder / "mounted"
        self.mount_point.mkdir()
        self.bases = {}

    def image(self, name):
        return self.folder / f"{name}.img"

    def require(self):
        """A loop mount of an ext4 works here, or Skip."""
        for program in ("mkfs.ext4", "mount", "umount"):
            if shutil.which(program) is None:
                raise Skip(f"there is no {program} here")
        self.make_image("probe")
        result = run(["mount", "-o", MOUNT, self.image("probe"), self.mount_point])
        if result.returncode != 0:
            raise Skip(f"an ext4 image cannot be mounted here: {torture.tail(result)}")
        run(["umount", self.mount_point])

    def make_image(self, name):
        with open(self.image(name), "wb") as file:
            file.truncate(IMAGE_BYTES)
        result = run(["mkfs.ext4", "-q", "-F", self.image(name)])
        expect(result.returncode == 0, f"mkfs.ext4 failed: {torture.tail(result)}")

    def base(self, blocked):
        """Three checkpoints, synced."""
        name = f"base{int(blocked)}"
        if not self.image(name).exists():
            self.make_image(name)
            with Mounted(self.image(name), self.mount_point) as root:
                torture.make_base(self.victim, root)
                if blocked:
                    (root / "LATEST.tmp" / "not-empty").mkdir(parents=True)
                os.sync()
        return self.image(name)

    def cut(self, tried, at):
        """The power goes before change `at` of save 4. Returns how many changes a whole save makes, if it came so far."""
        work, left = self.image("work"), self.image("cut")
        shutil.copyfile(self.base(tried.hint_blocked), work)
        left.unlink(missing_ok=True)
        command = f"cp --sparse=always '{work}' '{left}'"
        if tried.foreign_sync:
            command = f"dd if=/dev/zero of='{self.mount_point}/foreign' bs=1 count=1 conv=fsync status=none && {command}"
        with Mounted(work, self.mount_point, tried.mount_options) as root:
            result = run([self.victim, "save", root, 4, "--longest-write", 2048, *tried.victim_options,
                          "--cut-at", at, "--cut-command", command])
        expect(result.returncode == 0 and left.exists(), f"the cut at {at} did not happen: {torture.tail(result)}")
        changes = re.search(r"^changes (\d+)$", result.stdout, re.M)
        return int(changes[1]) if changes else None

    def judge(self, tried, at, returned):
        """What is left: "torn", "lost" (the save had returned), "old" or "new"."""
        with Mounted(self.image("cut"), self.mount_point) as root:
            result = run([self.victim, "check", root])
            newest, latest, steps = torture.verdict(result, "found")
            if result.returncode != 0 or 3 not in steps or newest not in (3, 4) or latest == "malformed":
                return "torn", torture.tail(result)
            if returned and (newest != 4 or (latest != "4" and not tried.hint_blocked)):
                return "lost", torture.tail(result)
            if not tried.victim_options and not tried.hint_blocked:
                torture.expect_recovers(self.victim, root, (newest,), f" after a cut at {at}")
        return ("new" if newest == 4 else "old"), ""


AFTER_ALL = 10**6


def cuts(laboratory, tried, only_after=False):
    """Cuts before each change and one after the save has returned, or only the latter. Returns outcomes by number."""
    outcomes, failures = collections.Counter(), []
    at, last = AFTER_ALL if only_after else 1, None
    while last is None:
        last = laboratory.cut(tried, at)
        outcome, text = laboratory.judge(tried, at, last is not None)
        outcomes[outcome] += 1
        if outcome in ("torn", "lost"):
            failures.append(f"{tried.name}: cut at {at}: {outcome}: {text}")
        at += 1
    count = sum(outcomes.values())
    expect(only_after or count == last + 1, f"{last} changes, but {count} cuts")
    text = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    print(f"  {tried.name:52} {count:3} cut{'s' if count > 1 else ''}: {text}", flush=True)
    return outcomes, failures


def check_sound(laboratory, variants, only_after=False):
    bad = []
    for tried in variants:
        outcomes, failures = cuts(laboratory, tried, only_after)
        bad += failures
        if only_after or failures:
            continue
        expect(outcomes.total() >= 30, f"{tried.name}: only {outcomes.total()} cuts")
        expect(outcomes["old"] > 0 and outcomes["new"] > 0, f"{tried.name}: no cut before the commit, or none after it")
    for failure in bad[:10]:
        print("FAILED", failure)
    expect(not bad, f"{len(bad)} cuts broke a promise")


def check_mutants(laboratory, only_after):
    """The test of the test: what it must find when fsync lies."""
    for tried in MUTANTS_TORN:
        outcomes, _ = cuts(laboratory, tried, only_after)
        expect(outcomes["torn"] > 0, f"{tried.name}: no torn checkpoint was found, so this test finds nothing")
    for tried in MUTANTS_LOST:
        outcomes, _ = cuts(laboratory, tried, only_after)
        expect(outcomes["lost"] > 0, f"{tried.name}: no lost commit was found, so this test finds nothing")


def enter_namespace():
    """Runs itself again where mounts are private: whatever happens, none stays."""
    if os.geteuid() != 0:
        raise Skip("loop mounts need root")
    if run(["unshare", "-m", "true"]).returncode != 0:
        raise Skip("unshare cannot make a private mount namespace here")
    return subprocess.call(["unshare", "-m", sys.executable, *sys.argv, INSIDE])


def body():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("victim")
    parser.add_argument("--fast", action="store_true", help="most variants only cut after the save has returned")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.in_namespace:
        return enter_namespace()
    with tempfile.TemporaryDirectory(prefix="torture-", dir=torture.fast_folder()) as name:
        laboratory = Laboratory(pathlib.Path(arguments.victim).resolve(), pathlib.Path(name))
        laboratory.require()
        often = SOUND[:2] if arguments.fast else SOUND
        check_sound(laboratory, often)
        check_sound(laboratory, [tried for tried in SOUND if tried not in often], only_after=True)
        check_mutants(laboratory, only_after=arguments.fast)
    return 0


if __name__ == "__main__":
    torture.main(body)
