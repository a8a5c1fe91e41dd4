"""How MiniGPT's ranks leave when they cannot go on: what all of them refuse, all of them say, and a rank with trouble of its
own tells the others what it was."""

import os
import re
import resource
import tempfile
import unittest

import jobs
import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
TINY = ["--data", DATA, "--layers", "1", "--width", "32", "--heads", "2", "--context", "32", "--batch", "6", "--micro-batch",
        "1", "--steps", "8", "--warmup", "3", "--eval-every", "0", "--sample", "0", "--precision", "fp32"]
REPEATS = int(os.environ.get("ZERO_TEST_REPEATS", "3"))  # of each of four cases


class Leaving(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = os.path.join(folder.name, "run")

    def train(self, world, *extra, before=""):
        """The exit code of each rank, and what was said. `zero run` would stop the others as soon as one fails."""
        script = before + '"$@" 2>&1; echo "rank $RANK ended with $?"'
        done, out, err = ranks.run(["sh", "-c", script, "sh", os.path.abspath(ranks.program("minigpt")), *TINY, *extra], ranks=world)
        self.assertEqual(done, 0, (out, err))
        codes = dict(re.findall(r"rank (\d+) ended with (\d+)", out))
        return [int(codes[str(rank)]) for rank in range(world)], out

    def test_a_refused_resume_ends_every_rank_with_2_and_the_same_words(self):
        done, out, err = ranks.run([ranks.program("minigpt"), *TINY, "--checkpoint", self.root, "--stop-after", "1"], ranks=2)
        self.assertEqual(done, 0, (out, err))
        deep = os.path.join(self.folder, *["d" * 200] * 10)  # so long that what is wrong does not fit beside a call's header
        os.makedirs(deep)
        file = os.path.join(deep, "file")
        open(file, "wb").close()
        resume = ("--checkpoint", self.root, "--resume", "auto")
        cases = (("2 ranks in the checkpoint, 3 here", (*resume, "--async-save")),
                 ("(--seed): seed is 3, was 1", (*resume, "--reshard-on-load", "--seed", "3")),
                 ("the root is a file", ("--checkpoint", file, "--resume", "auto")),
                 ("there is no checkpoint here", ("--resume", os.path.join(self.folder, "nothing"))))
        for _ in range(REPEATS):
            for words, extra in cases:
                with self.subTest(extra=extra):
                    codes, out = self.train(3, *extra)
                    self.assertEqual(codes, [2, 2, 2], out)
                    self.assertEqual(out.count(words), 3, out)

    def test_a_wrong_flag_is_told_by_rank_0_however_late_it_starts(self):
        script = 'test "$RANK" = 0 && sleep 1; exec "$@"'
        code, out, err = ranks.run(["sh", "-c", script, "sh", ranks.program("minigpt"), *TINY, "--stage", "9"], ranks=3)
        self.assertEqual(code, 2, (out, err))
        self.assertEqual([line for line in ranks.without_prefix(err) if line.startswith("minigpt:")],
                         ["minigpt: --stage: Value 9 not in range 0 to 2 (see minigpt --help)"], err)

    def test_a_flag_that_is_wrong_on_one_rank_alone_is_told_by_it(self):
        script = 'test "$RANK" = 1 && set -- "$@" --stage 9; "$@"; true'
        _, out, err = ranks.run(["sh", "-c", script, "sh", ranks.program("minigpt"), *TINY], ranks=2)
        self.assertIn("[1] minigpt: --stage: Value 9 not in range 0 to 2", err, out)

    def test_a_rank_with_trouble_of_its_own_tells_the_others_who_and_why(self):
        log = os.path.join(self.folder, "no", "folder.jsonl")
        codes, out = self.train(3, "--log", log)
        self.assertEqual(codes, [3, 3, 3], out)
        for rank in (1, 2):
            line = next(line for line in out.splitlines() if line.startswith(f"[{rank}] minigpt:"))
            self.assertIn("rank 0 aborted: --log: the log cannot be written, check its folder: " + log, line)

    def test_a_rank_without_the_data_tells_the_others_before_they_train(self):
        os.symlink(os.path.abspath(DATA), os.path.join(self.folder, "text"))
        codes, out = self.train(3, "--data", "text", before=f"cd '{self.folder}'; test $RANK = 1 && cd /; ")
        self.assertEqual(codes, [3, 2, 3], out)
        self.assertEqual(out.count("rank 1 aborted: --data cannot be read; check the path: text"), 2, out)

    def limit(self, rank, kib):
        """The words that start a program whose files on one rank may not grow beyond a limit that can be lifted later."""
        script = f"trap '' XFSZ; test $RANK = {rank} && ulimit -S -f {kib * 2}; exec \"$@\""  # in blocks of 512 bytes
        return ["sh", "-c", script, "sh", ranks.program("minigpt"), *TINY]

    def test_saving_that_fails_on_one_rank_ends_the_run_at_the_third_time_in_a_row(self):
        for extra in ((), ("--async-save",)):
            with self.subTest(extra=extra):
                arguments = self.limit(1, 4) + ["--checkpoint", self.root, "--save-every", "1", *extra]
                code, out, err = ranks.run(arguments, ranks=2)
                self.assertEqual(code, 3, (out, err))
                self.assertEqual(re.findall(r"saving failed, the next save is another try \((\d) in a row; the run ends at 3\)", out),
                                 ["1", "2"], (out, err))
                for rank in (0, 1):
                    self.assertIn(f"[{rank}] minigpt: saving failed 3 times in a row; make room", err)
                self.assertRegex(err, "rank 1.*File too large")

    def test_training_goes_on_after_a_failed_save_and_the_next_one_counts(self):
        for extra in ((), ("--async-save",)):
            with self.subTest(extra=extra):
                root = self.root + "".join(extra)
                arguments = self.limit(1, 4) + ["--checkpoint", root, "--steps", "300", "--save-every", "100", *extra]
                job = jobs.Job(self, arguments, 2)
                self.assertTrue(job.wait_for("warning: saving failed"), job.lines)
                self.assertTrue(job.lift_limit(1, resource.RLIMIT_FSIZE), job.lines)
                code, text = job.rest()
                self.assertEqual(code, 0, text)
                self.assertNotIn("step_000000000100", os.listdir(root))
                done, out, err = ranks.run([ranks.ZERO, "verify", os.path.join(root, "step_000000000300")])
                self.assertEqual(done, 0, (out, err))

    def test_a_last_save_that_fails_ends_the_run_with_3_on_every_rank_and_the_older_checkpoint_stands(self):
        done, out, err = ranks.run([ranks.program("minigpt"), *TINY, "--checkpoint", self.root, "--stop-after", "2"], ranks=2)
        self.assertEqual(done, 0, (out, err))
        for extra in ((), ("--async-save",)):
            with self.subTest(extra=extra):
                code, out, err = ranks.run(self.limit(1, 4) + ["--checkpoint", self.root, "--resume", "auto", *extra], ranks=2)
                self.assertEqual(code, 3, (out, err))
                for rank in (0, 1):
                    self.assertIn(f"[{rank}] minigpt: the last save failed and the run ends without it; make room", err)
                done, out, err = ranks.run([ranks.ZERO, "verify", os.path.join(self.root, "step_000000000002")])
                self.assertEqual(done, 0, (out, err))


if __name__ == "__main__":
    unittest.main(verbosity=2)
