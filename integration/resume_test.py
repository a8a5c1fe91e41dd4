"""Checkpoints as MiniGPT's users have them: ranks are killed and asked to stop, disks fill up, worlds shrink and grow, and
the run that comes out is the one that nothing ever happened to, bit for bit."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import jobs
import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
STEPS = 24
SMALL = ["--data", DATA, "--layers", "1", "--width", "64", "--heads", "2", "--context", "64", "--batch", "8", "--micro-batch",
         "2", "--steps", str(STEPS), "--warmup", "3", "--eval-every", "0", "--sample", "0", "--precision", "fp32"]
AT_STEP = rf"step %d/{STEPS}\b"
WORLDS = (1, 2, 4)
SEED = int(os.environ.get("ZERO_TEST_SEED", "20240611"))


def minigpt(*extra):
    return [ranks.program("minigpt"), *SMALL, *extra]


def step_directory(root, step):
    return os.path.join(root, f"step_{step:012d}")


def steps_in(root):
    if not os.path.isdir(root):
        return []
    return sorted(int(name[5:]) for name in os.listdir(root) if name.startswith("step_"))


def losses(path):
    """Of each step that a log has; a step that was taken twice must have had the same loss twice."""
    result = {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if result.setdefault(line["step"], line["loss"]) != line["loss"]:
                raise AssertionError(f"step {line['step']} was repeated with another loss: {line['loss']}")
    return result


def job_of(test, world, *extra):
    return jobs.Job(test, minigpt(*extra), world)


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.twin = os.path.join(folder.name, "twin")
        cls.twin_log = os.path.join(folder.name, "twin.jsonl")
        code, out, err = ranks.run(minigpt("--checkpoint", cls.twin, "--save-every", "6", "--keep", "0", "--log", cls.twin_log))
        assert code == 0, (out, err)
        assert steps_in(cls.twin) == [6, 12, 18, 24], out

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = os.path.join(folder.name, "run")
        self.log = os.path.join(folder.name, "log.jsonl")

    def go(self, world, *extra, code=0):
        done, out, err = ranks.run(minigpt("--checkpoint", self.root, *extra), ranks=world)
        self.assertEqual(done, code, (out, err))
        return out + err

    def assert_equal_to_twin(self, step=STEPS):
        result = subprocess.run([ranks.ZERO, "diff", step_directory(self.twin, step), step_directory(self.root, step)],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_log_equal_to_twin(self):
        self.assertEqual(losses(self.log), losses(self.twin_log))

    def test_the_comparison_can_fail(self):
        self.go(0, "--seed", "2")
        with self.assertRaises(AssertionError):
            self.assert_equal_to_twin()

    def test_kill_9_of_a_rank_in_mid_run_then_resume_on_one_rank(self):
        for extra in ((), ("--async-save",)):
            job = job_of(self, 4, "--checkpoint", self.root, "--save-every", "2", "--log", self.log, *extra)
            self.assertTrue(job.wait_for(AT_STEP % 9), job.lines)
            self.assertTrue(job.signal(2, signal.SIGKILL))
            code, text = job.rest()
            self.assertEqual(code, 128 + 9, text)
            self.assertTrue(steps_in(self.root), text)
            self.assertLess(steps_in(self.root)[-1], STEPS)
            text = self.go(1, "--save-every", "2", "--resume", "auto", "--reshard-on-load", "--log", self.log, *extra)
            self.assertRegex(text, r"masters +resharded .* from 4 ranks")
            self.assertRegex(text, r"resumed after step \d+")
            self.assert_equal_to_twin()
            self.assert_log_equal_to_twin()
            shutil.rmtree(self.root)
            os.remove(self.log)

    def test_worlds_of_4_2_and_1(self):
        text = self.go(4, "--stop-after", "6", "--resume", "auto", "--save-initial", "--keep", "0", "--log", self.log)
        self.assertIn(f"no checkpoint in {self.root} yet: starting fresh", text)
        self.assertEqual(steps_in(self.root), [0, 6])
        self.go(2, "--stop-after", "12", "--resume", "auto", "--reshard-on-load", "--stage", "1", "--log", self.log)
        self.assert_equal_to_twin(12)
        self.go(1, "--resume", step_directory(self.root, 12), "--reshard-on-load", "--log", self.log)
        self.assert_equal_to_twin()
        self.assert_log_equal_to_twin()
        text = self.go(1, "--resume", "auto")
        self.assertIn("there is nothing to do", text)

    def test_another_world_without_the_flag_is_refused_with_both_numbers(self):
        self.go(2, "--stop-after", "2")
        text = self.go(1, "--resume", "auto", code=2)
        self.assertIn("world size: 2 ranks in the checkpoint, 1 here", text)

    def test_a_signal_to_one_rank_stops_all_and_the_run_goes_on_later(self):
        for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGUSR1, "SIGUSR1")):
            for rank, extra in ((0, ()), (1, ("--async-save",))):
                with self.subTest(signal=name, rank=rank):
                    job = job_of(self, 2, "--checkpoint", self.root, "--log", self.log, *extra)
                    self.assertTrue(job.wait_for(AT_STEP % 3), job.lines)
                    self.assertTrue(job.signal(rank, number))
                    code, text = job.rest()
                    self.assertEqual(code, 0, text)
                    found = re.search(rf"stopped by {name} on rank {rank} after step (\d+); saved in {self.root}; "
                                      r"go on with --resume auto\n", text)
                    self.assertTrue(found, text)
                    self.assertEqual(steps_in(self.root), [int(found[1])])
                    self.go(2, "--resume", "auto", "--log", self.log)
                    self.assert_equal_to_twin()
                    self.assert_log_equal_to_twin()
                    shutil.rmtree(self.root)
                    os.remove(self.log)

    def test_a_signal_without_checkpoint_says_that_nothing_was_saved(self):
        job = job_of(self, 2)
        self.assertTrue(job.wait_for(AT_STEP % 3), job.lines)
        self.assertTrue(job.signal(1, signal.SIGTERM))
        code, text = job.rest()
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"stopped by SIGTERM on rank 1 after step \d+; nothing was saved: there is no --checkpoint")

    def test_a_storm_of_kills_and_stops_on_changing_worlds_leaves_no_trace(self):
        print(f"ZERO_TEST_SEED={SEED}")
        dice = random.Random(SEED)
        accidents = rounds = 0
        code = None
        while code != 0 or steps_in(self.root)[-1] != STEPS:
            rounds += 1
            self.assertLess(rounds, 40)
            world = dice.choice(WORLDS)
            extra = ("--async-save",) if dice.random() < 0.5 else ()
            victim, number = dice.randrange(world), dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            strike_at = (steps_in(self.root) or [0])[-1] + dice.randint(1, 9)
            job = job_of(self, world, "--checkpoint", self.root, "--save-every", "2", "--resume", "auto", "--reshard-on-load",
                      "--log", self.log, *extra)
            if job.wait_for(AT_STEP % strike_at) and job.signal(victim, number):
                accidents += 1
            code, text = job.rest()
            self.assertIn(code, (0, 128 + 9), text)
        print(f"{rounds} rounds, {accidents} accidents")
        self.assertGreaterEqual(accidents, 3)
        self.assert_equal_to_twin()
        self.assert_log_equal_to_twin()
        self.assertEqual([name for name in os.listdir(self.root) if name.startswith((".tmp", ".del"))], [])

    def test_two_jobs_in_one_root(self):
        job = job_of(self, 2, "--checkpoint", self.root, "--save-initial")
        self.assertTrue(job.wait_for("step 0 saved"), job.lines)
        os.kill(jobs.pid_of_rank(job.process, 0), signal.SIGSTOP)
        text = self.go(1, "--resume", "auto", "--reshard-on-load", code=2)
        os.kill(jobs.pid_of_rank(job.process, 0), signal.SIGCONT)
        self.assertIn("another job saves into this root", text)
        self.assertIn(os.path.join(self.root, ".job.lock"), text)
        code, text = job.rest()
        self.assertEqual(code, 0, text)
        self.assert_equal_to_twin()

    def test_roots_that_are_odd(self):
        open(self.root, "wb").close()
        self.assertIn("the root is a file", self.go(2, code=2))
        os.remove(self.root)
        os.mkdir(self.root + ".there")
        os.symlink(self.root + ".there", self.root)
        self.go(2)
        self.assert_equal_to_twin()
        os.remove(self.root)
        self.root = os.path.join(self.folder, "no", "run")
        text = self.go(2, code=3)
        self.assertIn("does not exist; make it: " + os.path.dirname(self.root), text)

    def test_a_damaged_newest_checkpoint_is_passed_over_aloud_and_replaced(self):
        self.go(2, "--save-every", "2", "--stop-after", "6", "--log", self.log)
        with open(os.path.join(step_directory(self.root, 6), "shard-00001-of-00002.h5"), "r+b") as file:
            file.truncate(512)
        text = self.go(2, "--resume", "auto", "--save-every", "2", "--log", self.log)
        self.assertRegex(text, r"step_0+6: .*shard-00001-of-00002\.h5")
        self.assertIn("resumed after step 4", text)
        self.assertIn("removed a damaged checkpoint to save its step again: " + os.path.basename(step_directory("", 6)), text)
        self.assert_equal_to_twin()
        self.assert_log_equal_to_twin()

    def test_other_data_or_another_seed_is_refused(self):
        self.go(0, "--stop-after", "1")
        self.assertIn("(--seed): seed is 3, was 1", self.go(0, "--resume", "auto", "--seed", "3", code=2))
        other = os.path.join(self.folder, "other.txt")
        with open(DATA, "rb") as source, open(other, "wb") as target:
            target.write(source.read(100000))
        self.assertIn("(--data and --context)", self.go(0, "--resume", "auto", "--data", other, code=2))

    def test_flags_that_change_the_course_are_named_in_one_line_and_count(self):
        self.go(0, "--stop-after", "1")
        text = self.go(0, "--resume", "auto", "--stop-after", "2", "--stage", "1", "--save-every", "1")
        self.assertNotIn("warning", text)
        text = self.go(2, "--resume", "auto", "--reshard-on-load", "--batch", "16", "--lr", "0.002", "--weight-decay", "0.25")
        self.assertEqual([line for line in ranks.without_prefix(text) if "warning" in line],
                         ["warning: goes on with other flags, so the result will be another: --batch 16 (was 8), "
                          "--lr 0.002 (was 0.001), --weight-decay 0.25 (was 0.1)"])
        done = subprocess.run([ranks.ZERO, "inspect", "--json", step_directory(self.root, STEPS)], capture_output=True, text=True,
                              check=False)
        self.assertIn(0.25, [group["weight_decay"] for group in json.loads(done.stdout)["groups"]], done.stdout)

    def test_a_checkpoint_or_weights_that_are_not_there(self):
        nothing = os.path.join(self.folder, "nothing.safetensors")
        self.assertIn("there is no checkpoint here: " + nothing, self.go(0, "--resume", nothing, code=2))
        self.assertIn(nothing, self.go(2, "--load-parameters", nothing, code=3))

    def test_a_resumed_log_loses_a_line_that_was_cut_short(self):
        self.go(0, "--stop-after", "3", "--log", self.log)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write('{"step": 4, "lo')
        self.go(0, "--resume", "auto", "--log", self.log)
        self.assert_log_equal_to_twin()

    def test_an_exported_average_is_what_validation_saw(self):
        def validation(path):
            with open(path, encoding="utf-8") as file:
                return [line["eval_loss"] for line in map(json.loads, file) if "eval_loss" in line]

        watched = ["--steps", "6", "--eval-every", "6", "--log", self.log]
        self.go(2, *watched, "--ema", "0.5")
        weights = {}
        for name, flags in (("average", ["--ema"]), ("weights", [])):
            path = os.path.join(self.folder, name + ".safetensors")
            done = subprocess.run([ranks.ZERO, "export", self.root, path, *flags], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            log = os.path.join(self.folder, name + ".jsonl")
            code, out, err = ranks.run(minigpt("--load-parameters", path, "--steps", "1", "--eval-every", "1", "--log", log))
            self.assertEqual(code, 0, (out, err))
            weights[name] = validation(log)[0]  # before the first step
        self.assertEqual(weights["average"], validation(self.log)[-1])
        self.assertNotEqual(weights["weights"], weights["average"])

    def test_exported_weights_start_another_run(self):
        weights = os.path.join(self.folder, "weights.safetensors")
        done = subprocess.run([ranks.ZERO, "export", step_directory(self.twin, STEPS), weights], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        log = os.path.join(self.folder, "eval.jsonl")
        found = []
        for arguments in (("--resume", step_directory(self.twin, STEPS), "--steps", str(STEPS + 1), "--stop-after", "25"),
                          ("--load-parameters", weights, "--steps", "1")):
            code, out, err = ranks.run(minigpt("--eval-every", "1", "--log", log, "--lr", "0", "--min-lr", "0", *arguments))
            self.assertEqual(code, 0, (out, err))
            with open(log, encoding="utf-8") as file:
                found.append([line["eval_loss"] for line in map(json.loads, file) if "eval_loss" in line][-1])
        self.assertIn("parameters from " + weights, out)
        self.assertEqual(found[0], found[1])


class Mounted:
    """A small file system that only programs started through it see."""

    def __init__(self, test, folder, size):
        if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
            test.skipTest("needs root, unshare and nsenter, to mount a small file system")
        script = f"mount -t tmpfs -o size={size} tmpfs '{folder}' && echo mounted && exec sleep 600"
        self.holder = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
        test.addCleanup(self.end)
        if self.holder.stdout.readline() != "mounted\n":
            test.skipTest("cannot mount here: " + self.holder.stderr.read().strip())

    def run(self, *command):
        done = subprocess.run(["nsenter", "-t", str(self.holder.pid), "-m", *command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100 * ranks.SLOWDOWN, check=False,
                              env=ranks.clean_environment())
        return done.returncode, done.stdout + done.stderr

    def train(self, world, *extra):
        return self.run(os.path.abspath(ranks.ZERO), "run", "-n", str(world), "--",
                        *[os.path.abspath(ranks.program("minigpt")), *SMALL, *extra])

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


class BadDisks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = os.path.join(folder.name, "run")

    def test_a_full_disk_costs_no_older_checkpoint_and_the_run_goes_on_when_there_is_room(self):
        disk = Mounted(self, self.folder, "3m")
        for extra in ((), ("--async-save",)):
            with self.subTest(extra=extra):
                code, text = disk.train(2, "--checkpoint", self.root, "--stop-after", "2", *extra)
                self.assertEqual(code, 0, text)
                disk.run("sh", "-c", f"head -c 100m /dev/zero > '{self.folder}/filler'")
                code, text = disk.train(2, "--checkpoint", self.root, "--resume", "auto", "--save-every", "1", *extra)
                self.assertEqual(code, 3, text)
                self.assertIn("the older ones are untouched", text)
                self.assertIn("No space left on device", text)
                code, text = disk.run(os.path.abspath(ranks.ZERO), "verify", step_directory(self.root, 2))
                self.assertEqual(code, 0, text)
                disk.run("rm", os.path.join(self.folder, "filler"))
                code, text = disk.train(2, "--checkpoint", self.root, "--resume", "auto", *extra)
                self.assertEqual(code, 0, text)
                self.assertIn("resumed after step 2", text)
                disk.run("rm", "-r", self.root)

    def test_a_root_that_cannot_be_written_is_found_out_before_the_first_step(self):
        disk = Mounted(self, self.folder, "3m")
        code, text = disk.train(2, "--checkpoint", self.root, "--stop-after", "2")
        self.assertEqual(code, 0, text)
        code, text = disk.run("mount", "-o", "remount,ro", self.folder)
        self.assertEqual(code, 0, text)
        code, text = disk.train(2, "--checkpoint", self.root, "--resume", "auto")
        self.assertEqual(code, 3, text)
        self.assertIn("Read-only file system", text)
        self.assertNotIn(f"step 3/{STEPS}", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
