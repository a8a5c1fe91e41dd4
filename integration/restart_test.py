"""`zero run --restarts` with a trainer that resumes: ranks are killed and asked to stop, the run goes on with fewer, and the
losses are those of a run that nothing ever happened to."""

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
STEPS = 40
SMALL = ["--data", DATA, "--layers", "1", "--width", "64", "--heads", "2", "--context", "64", "--batch", "12", "--micro-batch",
         "2", "--steps", str(STEPS), "--warmup", "3", "--eval-every", "0", "--sample", "0", "--precision", "fp32"]

# Once the log has a step, one rank of one try kills itself.
KILL_YOURSELF = """
if [ "$TORCHELASTIC_RESTART_COUNT/$RANK" = {attempt}/{rank} ]; then
  (until grep -q '"step":{step},' {log}; do sleep 0.01; done; kill -9 $$) &
fi
"""


def minigpt(*extra):
    return [ranks.program("minigpt"), *SMALL, *extra]


def losses(path):
    """Of each step that a log has; a step that was taken twice must have had the same loss twice."""
    result = {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if result.setdefault(line["step"], line["loss"]) != line["loss"]:
                raise AssertionError(f"step {line['step']} was repeated with another loss: {line['loss']}")
    return result


class Restart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        log = os.path.join(folder.name, "twin.jsonl")
        code, out, err = ranks.run(minigpt("--log", log))
        assert code == 0, (out, err)
        cls.expected = losses(log)
        assert sorted(cls.expected) == list(range(1, STEPS + 1)), out

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "log.jsonl")
        self.root = os.path.join(folder.name, "run")

    def start(self, options, deaths=(), resume=("--resume", "auto", "--reshard-on-load")):
        script = "".join(KILL_YOURSELF.format(attempt=attempt, rank=rank, step=step, log=shlex.quote(self.log))
                         for attempt, rank, step in deaths)
        trainer = minigpt("--log", self.log, "--checkpoint", self.root, "--save-every", "3", *resume)
        command = [ranks.ZERO, "run", *options, "--", "sh", "-c", script + "exec " + shlex.join(trainer)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=ranks.clean_environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def run_to_the_end(self, *arguments, **keywords):
        process = self.start(*arguments, **keywords)
        text, _ = process.communicate(timeout=100 * ranks.SLOWDOWN)
        return process.returncode, text

    def test_two_deaths_leave_no_trace_in_the_losses(self):
        code, text = self.run_to_the_end(["-n", "3", "--restarts", "2", "--min-ranks", "1", "--micro-batches", "6"],
                                         deaths=((0, 2, 8), (1, 1, 16)))
        self.assertEqual(code, 0, text)
        self.assertIn("zero run: rank 2 was killed by SIGKILL; restart 1 of 2 with 2 of 3 ranks\n", text)
        self.assertIn("zero run: rank 1 was killed by SIGKILL; restart 2 of 2 with 1 of 3 ranks\n", text)
        self.assertIn("no checkpoint in", text)
        resumed = [int(step) for step in re.findall(r"resumed after step (\d+)", text)]
        self.assertEqual(len(resumed), 2, text)
        self.assertGreaterEqual(resumed[0], 6)  # the death came after step 8, and training waits for a save
        self.assertEqual(losses(self.log), self.expected)

    def test_a_death_with_as_many_ranks_as_before(self):
        code, text = self.run_to_the_end(["-n", "2", "--restarts", "1"], deaths=((0, 0, 8),), resume=("--resume", "auto"))
        self.assertEqual(code, 0, text)
        self.assertIn("zero run: rank 0 was killed by SIGKILL; restart 1 of 1 with 2 of 2 ranks\n", text)
        self.assertEqual(losses(self.log), self.expected)

    def test_a_trainer_that_refuses_to_resume_is_not_started_a_third_time(self):
        code, text = self.run_to_the_end(["-n", "2", "--restarts", "5", "--min-ranks", "1"], deaths=((0, 1, 8),),
                                         resume=("--resume", "auto"))
        self.assertEqual(code, 2, text)
        self.assertIn("restart 1 of 5 with 1 of 2 ranks\n", text)
        self.assertNotIn("restart 2 of 5", text)
        self.assertIn("no restart, since code 2", text)

    def test_sigterm_saves_and_ends_with_0_and_the_next_run_goes_on(self):
        process = self.start(["-n", "2", "--restarts", "5"])
        text = ""
        for line in process.stdout:
            text += line
            if re.search(rf"step \d+/{STEPS}\b", line):
                break
        process.send_signal(signal.SIGTERM)
        text += process.stdout.read()
        self.assertEqual(process.wait(timeout=100 * ranks.SLOWDOWN), 0, text)
        self.assertIn("asked to end; waiting up to 30 s", text)
        stopped = re.search(r"stopped by SIGTERM on rank \d after step (\d+); saved in", text)
        self.assertTrue(stopped, text)
        self.assertLess(int(stopped[1]), STEPS)
        code, text = self.run_to_the_end(["-n", "3"])
        self.assertEqual(code, 0, text)
        self.assertIn(f"resumed after step {stopped[1]}\n", text)
        self.assertEqual(losses(self.log), self.expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
