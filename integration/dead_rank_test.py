"""A rank that is killed or falls silent is named by the others, in time, and takes the job down."""

import re
import time
import unittest

import ranks


class DeadRank:
    """The claims; a class for each backend makes them."""

    backend = None

    def test_kill_9_of_one_of_three_in_mid_training(self):
        process = ranks.start([ranks.program("toy_trainer"), "2", "fp32", "auto", "0", "die=2"], 3,
                              ZERO_BACKEND=self.backend)
        self.addCleanup(process.stdout.close)
        victim = None
        for line in process.stdout:
            found = re.search(r"pid (\d+)", line)
            if found:
                victim = int(found.group(1))
                break
        self.assertIsNotNone(victim)
        killed_at = ranks.kill(victim)
        heard = {}
        rest = []
        for line in process.stdout:
            rest.append(line)
            for rank in (0, 1):
                if line.startswith(f"[{rank}] toy_trainer:"):
                    heard[rank] = (time.monotonic() - killed_at, line)
        code = process.wait(timeout=10 * ranks.SLOWDOWN)
        took = time.monotonic() - killed_at
        text = "".join(rest)
        print("survivors heard after", {r: round(s, 3) for r, (s, _) in heard.items()}, "s; job ended after",
              round(took, 3), "s")
        self.assertEqual(code, 128 + 9, text)
        self.assertLess(took, 2.0 * ranks.SLOWDOWN)
        self.assertRegex(text, r"rank 2 was killed by SIGKILL")
        for rank in (0, 1):
            self.assertIn(rank, heard, text)
            self.assertLess(heard[rank][0], 1.0 * ranks.SLOWDOWN)
            self.assertIn("rank 2", heard[rank][1])

    def test_silent_rank_is_named_at_the_timeout_with_collective_and_parameters(self):
        process = ranks.start([ranks.program("toy_trainer"), "2", "fp32", "auto", "50", "hang=1"], 2, ZERO_TIMEOUT="3",
                              ZERO_BACKEND=self.backend)
        started = time.monotonic()
        text, _ = process.communicate(timeout=60 * ranks.SLOWDOWN)
        print(f"ended after {time.monotonic() - started:.1f} s")
        self.assertEqual(process.returncode, 3, text)
        error = next(line for line in text.splitlines() if line.startswith("[0] toy_trainer:"))
        self.assertIn("rank 1", error)
        self.assertRegex(error, r"#\d+")
        self.assertRegex(error, r"backward call 1 of step 5, bucket 0 \(.* \.\. .*\)")


class OverSharedMemory(DeadRank, unittest.TestCase):
    backend = "shm"


class OverGloo(DeadRank, unittest.TestCase):
    backend = "gloo"


if __name__ == "__main__":
    unittest.main(verbosity=2)
