#!/usr/bin/env python3
"""What happens to a save when the world around it is not as it should be: each outcome of docs/checkpoint_faults.md.

usage: outcomes.py VICTIM [name of a test...]
"""

import errno
import filecmp
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import torture

NOBODY = 65534
VICTIM = None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="torture-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.root = self.folder / "root"

    def base(self, root=None):
        torture.make_base(VICTIM, root or self.root)

    def save(self, step, *options, root=None, **keywords):
        return torture.run([VICTIM, "save", root or self.root, step, *options], **keywords)

    def assert_refused(self, result, *texts):
        self.assertEqual(result.returncode, 3, torture.tail(result))
        for text in texts:
            self.assertIn(str(text), result.stdout)

    def assert_system_error(self, result, code, path):
        self.assert_refused(result, f"{os.strerror(code)} (errno {code})", path)

    def assert_recovers(self, root=None):
        torture.expect_recovers(VICTIM, root or self.root, (3, 4))

    def hold(self, *options):
        """A job in the middle of saving step 4."""
        job = subprocess.Popen([VICTIM, "hold", self.root, "4", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
        self.addCleanup(self.end, job)
        self.assertEqual(job.stdout.readline(), "held\n")
        return job

    @staticmethod
    def end(job):
        if job.poll() is None:
            job.kill()
        job.communicate()


class Jobs(Case):
    def test_a_second_job_in_the_same_root_is_refused_at_once(self):
        self.base()
        job = self.hold()
        self.assert_refused(self.save(5), "a save or a removal is under way in this root", self.root)
        job.communicate()
        self.assertEqual(job.returncode, 0)
        self.assertEqual(os.listdir(self.root).count("step_000000000004"), 0, "a save that was not committed was kept")
        self.assert_recovers()

    def test_a_stopped_job_keeps_the_lock_and_hinders_no_reader(self):
        self.base()
        job = self.hold()
        job.send_signal(signal.SIGSTOP)
        self.assert_refused(self.save(5, timeout=20), "a save or a removal is under way")
        self.assertEqual(torture.run([VICTIM, "check", self.root]).returncode, 0)
        job.send_signal(signal.SIGCONT)
        job.communicate()
        self.assertEqual(job.returncode, 0)
        self.assert_recovers()

    def test_death_of_the_job_that_holds_the_lock_frees_it_and_the_next_save_cleans_up(self):
        self.base()
        job = self.hold()
        job.kill()
        job.communicate()
        self.assertTrue(any(name.startswith(".tmp-") for name in os.listdir(self.root)))
        self.assert_recovers()

    def test_a_child_that_was_forked_during_a_save_does_not_keep_the_lock(self):
        self.base()
        job = self.hold("--fork")
        self.assertEqual(job.stdout.readline(), "saved 4\n")
        result = self.save(5)
        self.assertEqual(result.returncode, 0, torture.tail(result))

    def test_a_root_that_is_deleted_during_a_save_is_an_error_and_no_crash(self):
        self.base()
        job = self.hold("--finish")
        shutil.rmtree(self.root)
        output, _ = job.communicate()
        self.assertEqual(job.returncode, 3, output)
        self.assertIn(f"(errno {errno.ENOENT})", output)
        self.assertIn(str(self.root), output)


class Roots(Case):
    def test_a_file_is_refused(self):
        self.root.write_text("notes")
        self.assert_refused(self.save(1), "the root of checkpoints is a file", self.root)
        self.assertEqual(self.root.read_text(), "notes")

    def test_a_link_to_a_directory_works(self):
        (self.folder / "elsewhere").mkdir()
        self.root.symlink_to("elsewhere")
        self.base()
        self.assert_recovers()
        self.assertTrue((self.folder / "elsewhere" / "step_000000000005").is_dir())

    def test_links_that_lead_nowhere_or_in_circles_are_errors(self):
        self.root.symlink_to("nowhere")
        self.assert_system_error(self.save(1), errno.ENOENT, self.root)
        self.root.unlink()
        self.root.symlink_to("root")
        self.assert_system_error(self.save(1), errno.ELOOP, self.root)
        self.root.unlink()
        (self.folder / "file").write_text("notes")
        self.root.symlink_to("file")
        self.assert_system_error(self.save(1), errno.ENOTDIR, self.root)

    def test_a_missing_parent_is_an_error(self):
        root = self.folder / "missing" / "root"
        self.assert_system_error(self.save(1, root=root), errno.ENOENT, root)

    def test_something_else_in_the_place_of_the_lock_is_an_error(self):
        self.base()
        (self.root / ".lock").unlink()
        (self.root / ".lock").mkdir()
        self.assert_system_error(self.save(4), errno.EISDIR, self.root / ".lock")
        (self.root / ".lock").rmdir()
        (self.root / ".lock").symlink_to(self.folder / "stolen")
        self.assert_system_error(self.save(4), errno.ELOOP, self.root / ".lock")
        self.assertFalse((self.folder / "stolen").exists())

    def test_files_of_others_are_left_alone(self):
        self.base()
        foreign = ["notes.txt", "step_4", "step_000000000003 (copy)", ".tmp-mine", ".del-step_000000000001-XYZ"]
        for name in foreign:
            (self.root / name).mkdir()
            (self.root / name / "MANIFEST.json").write_text("mine")
        result = torture.run([VICTIM, "recover", self.root, 5])
        self.assertEqual(result.returncode, 0, torture.tail(result))
        for name in foreign:
            self.assertEqual((self.root / name / "MANIFEST.json").read_text(), "mine")

    def test_a_leftover_that_holds_files_of_others_stays_with_a_warning(self):
        self.base()
        leftover = self.root / ".tmp-step_000000000004-0123456789abcdef"
        leftover.mkdir()
        (leftover / "precious.txt").write_text("mine")
        result = self.save(4)
        self.assertEqual(result.returncode, 0)
        self.assertIn("warning: a leftover of an earlier save stays, remove it by hand", result.stdout)
        self.assertEqual((leftover / "precious.txt").read_text(), "mine")

    def test_odd_names_work(self):
        for name in ["a b", "ü字", "[x]*?", "a+b", "it's \"quoted\"", "line\nbreak", "-dash", "%s%n", "back\\slash", "n" * 255]:
            with self.subTest(name):
                root = self.folder / name
                self.base(root)
                self.assert_recovers(root)
                shutil.rmtree(root)

    def test_a_slash_at_the_end_works(self):
        self.base(f"{self.root}//")
        self.assert_recovers(f"{self.root}/")

    def test_names_that_are_too_long_are_errors(self):
        root = self.folder / ("n" * 256)
        self.assert_system_error(self.save(1, root=root), errno.ENAMETOOLONG, root)


class Steps(Case):
    def test_a_step_that_exists_is_refused_and_untouched(self):
        self.base()
        before = {path.name: path.read_bytes() for path in (self.root / "step_000000000003").iterdir()}
        self.assert_refused(self.save(3, "--world", 2), "this step has a checkpoint already")
        after = {path.name: path.read_bytes() for path in (self.root / "step_000000000003").iterdir()}
        self.assertEqual(before, after)
        self.assert_recovers()

    def test_a_damaged_step_is_refused_too_and_not_repaired(self):
        self.base()
        (self.root / "step_000000000003" / "MANIFEST.json").unlink()
        self.assert_refused(self.save(3), "this step has a checkpoint already")
        result = torture.run([VICTIM, "check", self.root])
        self.assertEqual(result.returncode, 1)
        self.assertIn("torn: step_000000000003", result.stdout)

    def test_clocks_may_jump(self):
        self.base()
        for name, when in [("step_000000000002", 4_000_000_000), ("step_000000000003", 1)]:
            for path in [*(self.root / name).iterdir(), self.root / name]:
                os.utime(path, (when, when))
        self.assertEqual(self.save(4).returncode, 0)
        self.assertEqual(sorted(n for n in os.listdir(self.root) if n.startswith("step_")),
                         ["step_000000000003", "step_000000000004"])

    def test_the_same_step_gives_the_same_bytes_whenever_it_is_saved(self):
        other = self.folder / "other"
        torture.save(VICTIM, self.root, 1)
        torture.save(VICTIM, other, 1)
        compared = filecmp.dircmp(self.root / "step_000000000001", other / "step_000000000001")
        self.assertEqual(len(compared.common_files), 6)
        _, different, errors = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)
        self.assertEqual((different, errors), ([], []))


class Limits(Case):
    """Limits of the process. They are set in the child, before the victim starts."""

    def limited(self, which, value, *options, ignore=None):
        def prepare():
            resource.setrlimit(which, (value, value))
            if ignore is not None:
                signal.signal(ignore, signal.SIG_IGN)
        return self.save(4, *options, preexec_fn=prepare)

    def test_a_file_beyond_the_limit_is_an_error_if_its_signal_is_ignored(self):
        self.base()
        for limit in (0, 1000, 4096, 8192):
            result = self.limited(resource.RLIMIT_FSIZE, limit, ignore=signal.SIGXFSZ)
            self.assert_system_error(result, errno.EFBIG, self.root)
        self.assert_recovers()

    def test_a_file_beyond_the_limit_is_death_otherwise(self):
        self.base()
        self.assertEqual(self.limited(resource.RLIMIT_FSIZE, 4096).returncode, -signal.SIGXFSZ)
        self.assert_recovers()

    def test_too_few_descriptors_are_an_error(self):
        self.base()
        codes = set()
        for limit in range(4, 9):
            result = self.limited(resource.RLIMIT_NOFILE, limit)
            codes.add(result.returncode)
            if result.returncode == 3:
                self.assert_system_error(result, errno.EMFILE, self.root)
                continue
            self.assertEqual(result.returncode, 0, torture.tail(result))
            break
        self.assertEqual(codes, {0, 3})
        self.assert_recovers()


class Permissions(Case):
    """As a user who may not do everything."""

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            self.skipTest("as root this needs setpriv to become somebody else")
        self.become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        self.folder.chmod(0o755)
        probe = torture.run([*self.become, VICTIM, "--help"])
        if probe.returncode != 0:
            self.skipTest(f"another user cannot run the victim where it lies: {torture.tail(probe)}")

    def test_a_root_that_may_not_be_written_is_an_error_and_can_be_read(self):
        self.base()
        self.root.chmod(0o555)
        (self.root / ".lock").chmod(0o444)
        result = torture.run([*self.become, VICTIM, "save", self.root, 4])
        self.assert_system_error(result, errno.EACCES, self.root)
        self.assertEqual(torture.run([*self.become, VICTIM, "check", self.root]).returncode, 0)
        self.root.chmod(0o755)
        self.assert_recovers()

    def test_a_parent_that_may_not_be_written_is_an_error(self):
        self.folder.chmod(0o555)
        result = torture.run([*self.become, VICTIM, "save", self.root, 1])
        self.folder.chmod(0o755)
        self.assert_system_error(result, errno.EACCES, self.root)

    def test_a_root_that_may_not_be_read_is_an_error(self):
        self.base()
        self.root.chmod(0o000)
        result = torture.run([*self.become, VICTIM, "check", self.root])
        self.assertEqual(result.returncode, 3, torture.tail(result))
        self.assertIn(f"(errno {errno.EACCES})", result.stdout)


class Mounts(Case):
    """In a private mount namespace."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or torture.run(["unshare", "-m", "true"]).returncode != 0:
            self.skipTest("mounts need root and unshare")

    def mounted(self, options, script):
        """Runs a shell script that finds a tmpfs of those options at $at, and the victim at $victim."""
        at = self.folder / "mounted"
        at.mkdir()
        text = f'set -e; at="{at}"; victim="{VICTIM}"; mount -t tmpfs -o {options} torture "$at"; {script}'
        return torture.run(["unshare", "-m", "bash", "-c", text])

    SAVES = 'for step in 1 2 3; do "$victim" save "$at/root" $step >/dev/null; done; '

    def assert_full_disk(self, result, code=errno.ENOSPC):
        self.assertEqual(result.returncode, 0, torture.tail(result))
        self.assertIn(f"{os.strerror(code)} (errno {code})", result.stdout)
        self.assertIn("code=3", result.stdout)
        self.assertIn("found newest=3", result.stdout)
        self.assertIn("then newest=5 latest=5 steps=3,5", result.stdout)

    def test_a_full_disk_is_an_error_and_the_old_checkpoint_stays(self):
        self.assert_full_disk(self.mounted("size=1m", self.SAVES +
            '"$victim" save "$at/root" 4 --blob 2000000 || echo code=$?; "$victim" recover "$at/root" 5'))

    def test_a_disk_that_others_have_filled_is_an_error_until_there_is_room_again(self):
        self.assert_full_disk(self.mounted("size=1m", self.SAVES +
            'dd if=/dev/zero of="$at/others" bs=4096 status=none 2>/dev/null || true; '
            '"$victim" save "$at/root" 4 || echo code=$?; rm "$at/others"; "$victim" recover "$at/root" 5'))

    def test_a_disk_without_room_for_names_is_an_error(self):
        self.assert_full_disk(self.mounted("size=1m,nr_inodes=27", self.SAVES +
            '"$victim" save "$at/root" 4 --world 9 || echo code=$?; "$victim" recover "$at/root" 5'))

    def test_a_disk_that_has_become_read_only_is_an_error_and_can_be_read(self):
        self.assert_full_disk(self.mounted("size=1m", self.SAVES +
            'mount -o remount,ro "$at"; "$victim" save "$at/root" 4 || echo code=$?; "$victim" check "$at/root"; '
            'mount -o remount,rw "$at"; "$victim" recover "$at/root" 5'), errno.EROFS)


if __name__ == "__main__":
    VICTIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
