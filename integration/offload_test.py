"""State on a disk, in real processes: the same run as without; a disk that fails at a system call; runs that are killed."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import ranks

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
FLAGS = ["--data", TEXT, "--layers", "1", "--width", "32", "--heads", "2", "--context", "16", "--batch", "4", "--micro-batch", "1",
         "--eval-every", "0", "--sample", "0", "--bucket-mib", "0.02"]


def strace_missing():
    """Why calls cannot be made to fail here; empty if they can."""
    if shutil.which("strace") is None:
        return "no strace here"
    done = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=getpid", "-e", "inject=getpid:error=EPERM", "true"],
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else "strace cannot trace or change calls here"


class Offload(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trainer(self, steps, *extra):
        return [ranks.program("minigpt"), *FLAGS, "--steps", str(steps), *extra]

    def losses(self, world, *extra):
        with tempfile.NamedTemporaryFile() as log:
            code, out, err = ranks.run(self.trainer(6, "--log", log.name, *extra), ranks=world)
            self.assertEqual(code, 0, out + err)
            with open(log.name, encoding="utf-8") as file:
                return re.findall(r'"(?:loss|grad_norm)": ?([^,}]+)', file.read())

    def test_a_run_has_the_same_numbers_with_its_state_on_a_disk(self):
        expected = self.losses(2)
        self.assertGreaterEqual(len(expected), 12)
        self.assertEqual(self.losses(2, "--offload-dir", self.folder.name), expected)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_folder_that_is_missing_is_named(self):
        missing = os.path.join(self.folder.name, "missing")
        code, out, err = ranks.run(self.trainer(2, "--offload-dir", missing), ranks=2)
        self.assertNotEqual(code, 0)
        self.assertIn(missing, out + err)
        self.assertIn("No such file or directory", out + err)

    def fails_with(self, injection, *words):
        reason = strace_missing()
        if reason:
            self.skipTest(reason)
        code, out, err = ranks.run(["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=pread64,pwrite64,fallocate", "-e",
                                    "inject=" + injection, *self.trainer(80, "--offload-dir", self.folder.name)])
        self.assertEqual(code, 3, out + err)
        for word in ("libzero-offload-rank-0", *words):
            self.assertIn(word, out + err)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_full_disk_is_found_at_the_start(self):
        self.fails_with("fallocate:error=ENOSPC", "no room", "No space left on device")

    # The loader of programs reads with pread64, too, but not so often on one thread.

    def test_a_read_that_fails_ends_the_run(self):
        self.fails_with("pread64:error=EIO:when=20+", "reading the optimizer's state failed", "Input/output error")

    def test_a_read_that_ends_early_ends_the_run(self):
        self.fails_with("pread64:retval=0:when=20+", "ends too early")

    def test_a_write_that_fails_ends_the_run(self):
        self.fails_with("pwrite64:error=ENOSPC:when=20+", "writing the optimizer's state failed", "No space left on device",
                        "two different steps")

    def test_a_run_that_is_killed_leaves_nothing(self):
        process = ranks.start(self.trainer(100000, "--offload-dir", self.folder.name), 2)
        self.addCleanup(process.stdout.close)
        for line in process.stdout:
            if "step" in line and "loss" in line:
                break
        self.assertEqual(os.listdir(self.folder.name), [])
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
