"""A run that is watched: timelines of real processes, merged by the command; the log, TensorBoard and Prometheus."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

import jobs
import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
SMALL = ["--data", DATA, "--layers", "2", "--width", "96", "--heads", "2", "--context", "64", "--batch", "8", "--micro-batch",
         "2", "--steps", "6", "--warmup", "3", "--eval-every", "0", "--sample", "0", "--precision", "fp32", "--bucket-mib", "0.1"]
PARTS = ("forward_s", "backward_s", "wait_s", "update_s", "other_s")


def spans(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    return [dict(event, end=event["ts"] + event["dur"]) for event in trace["traceEvents"] if event["ph"] == "X"]


def inside(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["end"] <= outer["end"]


class Observe(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *extra, world=2):
        code, out, err = ranks.run([ranks.program("minigpt"), *SMALL, *extra], ranks=world)
        self.assertEqual(code, 0, (out, err))
        return out

    def zero(self, *arguments, code=0):
        done = subprocess.run([ranks.ZERO, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done.stdout

    def profile(self, name, *extra):
        self.train("--profile", "3", "--profile-dir", self.path(name), *extra)
        self.zero("trace", "merge", self.path(name + ".json"), self.path(name))
        return spans(self.path(name + ".json"))

    def test_reductions_lie_inside_backward_and_gathers_after_updates_of_their_buckets(self):
        # That gathers run while later buckets are updated is proven without a clock: ObservedOptimizer.GathersBuckets...
        events = self.profile("profile")
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.assertEqual({event["args"]["step"] for event in events}, {3, 4, 5})
        for rank in (0, 1):
            mine = [event for event in events if event["pid"] == rank]
            kinds = {kind: [event for event in mine if event["cat"] == kind] for kind in {event["cat"] for event in mine}}
            self.assertEqual(len(kinds["backward"]), 6)
            self.assertEqual(len(kinds["step"]), 3)
            self.assertEqual(len(kinds["vote"]), 3)
            buckets = {event["args"]["bucket"] for event in kinds["reduce"]}
            self.assertGreater(len(buckets), 3)
            hidden = [r for r in kinds["reduce"] if any(inside(r, b) for b in kinds["backward"])]
            self.assertTrue(hidden)
            updated = {(u["args"]["step"], u["args"]["bucket"]): u["end"] for u in kinds["update"]}
            gathered = {(g["args"]["step"], g["args"]["bucket"]): g["ts"] for g in kinds["gather"]}
            self.assertEqual(set(gathered), set(updated))
            self.assertEqual(len(gathered), 3 * len(buckets))
            self.assertTrue(all(gathered[key] >= end for key, end in updated.items()))
            self.assertTrue(all(e["tid"] == (1 if e["cat"] in ("pack", "reduce", "gather") else 0) for e in mine))

    def test_deferred_reductions_lie_outside_backward(self):
        events = self.profile("deferred", "--defer-reduction")
        for rank in (0, 1):
            backward = [event for event in events if event["pid"] == rank and event["cat"] == "backward"]
            reductions = [event for event in events if event["pid"] == rank and event["cat"] == "reduce"]
            self.assertTrue(reductions)
            self.assertFalse([r for r in reductions for b in backward if inside(r, b)])

    def test_a_run_shorter_than_its_profile_leaves_what_there_is(self):
        self.train("--profile", "100", "--profile-dir", self.path("p"), world=0)
        self.assertEqual({e["args"]["step"] for e in spans(self.path("p/trace-rank-0000.json"))}, {3, 4, 5, 6})

    def test_the_same_bits_come_out_watched_or_not(self):
        def losses(name, *extra):
            self.train("--log", self.path(name), *extra)
            with open(self.path(name), encoding="utf-8") as file:
                return [(line["loss"], line["grad_norm"]) for line in map(json.loads, file)]

        watched = losses("a", "--profile", "2", "--profile-dir", self.path("p"), "--tensorboard", self.path("tb"))
        self.assertEqual(watched, losses("b"))

    def test_the_log_splits_the_time_of_a_step(self):
        self.train("--log", self.path("log"), "--tensorboard", self.path("tb"))
        with open(self.path("log"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                # From the end of a step to the end of the next: a little more than minigpt's own time of it.
                self.assertGreater(sum(line[part] for part in PARTS), 0.9 * line["step_s"])
                self.assertGreater(line["backward_s"], 0)

    def test_tensorboards_own_reader_reads_the_events(self):
        if importlib.util.find_spec("tensorboard") is None:
            self.skipTest("this Python lacks tensorboard (pip install tensorboard)")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self.train("--log", self.path("log"), "--tensorboard", self.path("tb"))
        events = EventAccumulator(self.path("tb"))
        events.Reload()
        with open(self.path("log"), encoding="utf-8") as file:
            for line, scalar in zip(map(json.loads, file), events.Scalars("loss/training"), strict=True):
                self.assertEqual(line["step"], scalar.step)
                self.assertAlmostEqual(line["loss"], scalar.value, delta=1e-6)

    def test_prometheus_can_ask_while_training_goes_on(self):
        job = jobs.Job(self, [ranks.program("minigpt"), *SMALL, "--steps", "100000", "--metrics-port", "0"], 2)
        self.assertTrue(job.wait_for(r"metrics: http"))
        url = re.search(r"http://\S+/metrics", job.lines[-1]).group()
        deadline = time.monotonic() + 60 * ranks.SLOWDOWN
        steps = 0
        while steps < 3 and time.monotonic() < deadline:
            with urllib.request.urlopen(url, timeout=10) as response:
                page = response.read().decode()
            steps = int(re.search(r"^libzero_steps_total\{rank=\"0\"\} (\d+)$", page, re.M).group(1))
        self.assertGreaterEqual(steps, 3)
        self.assertRegex(page, r'libzero_bucket_seconds_total\{rank="0",bucket="0",work="reduce"\} [0-9.e-]+')
        job.signal(0, signal.SIGTERM)
        self.assertEqual(job.rest()[0], 0)

    def test_merge_answers_with_exit_codes_and_leaves_nothing_when_stopped(self):
        self.train("--profile", "2", "--profile-dir", self.path("p"))
        first, second = (self.path(f"p/trace-rank-000{rank}.json") for rank in (0, 1))
        answer = json.loads(self.zero("trace", "merge", self.path("all.json"), first, second, "--json"))
        self.assertEqual([rank["rank"] for rank in answer["ranks"]], [0, 1])
        self.assertEqual([rank["error_ns"] for rank in answer["ranks"]], [0, 0])
        self.assertEqual(sum(rank["events"] for rank in answer["ranks"]), len(spans(self.path("all.json"))))
        self.zero("trace", "merge", self.path("all.json"), first, code=2)
        self.zero("trace", "merge", self.path("x.json"), self.path("none"), code=3)
        self.zero("trace", "merge", self.path("x.json"), DATA, code=1)
        self.zero("trace", "merge", self.path("x.json"), self.path("all.json"), code=1)
        self.zero("trace", "split", code=2)
        self.zero("trace", code=2)
        # A file of such length that the command surely still works on it when the signal comes.
        with open(first, encoding="utf-8") as file:
            lines = file.read().split("\n")
        with open(self.path("long.json"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines[:5]) + "\n" + (lines[5] + "\n") * 2_000_000 + "\n".join(lines[5:]))
        with subprocess.Popen([ranks.ZERO, "trace", "merge", self.path("x.json"), self.path("long.json")],
                              stderr=subprocess.PIPE, text=True) as command:
            deadline = time.monotonic() + 60
            while not [name for name in os.listdir(self.folder) if ".tmp-" in name] and time.monotonic() < deadline:
                time.sleep(0.001)
            command.send_signal(signal.SIGINT)
            self.assertIn("interrupted", command.communicate(timeout=60)[1])
        self.assertEqual(command.returncode, 130)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("x.json")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
