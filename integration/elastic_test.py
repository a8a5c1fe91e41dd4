"""Fifty steps of MiniGPT with dropout: the same bytes on 1, 2 and 4 processes, over each backend, at each stage and precision,
and where the number of processes changes on the way."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
STEPS = 50
TINY = ["--data", DATA, "--layers", "1", "--width", "64", "--heads", "2", "--context", "16", "--batch", "8", "--micro-batch",
        "1", "--steps", str(STEPS), "--warmup", "5", "--lr", "0.003", "--eval-every", "0", "--sample", "0"]
DROPOUT = ["--dropout", "0.2"]
LARGE = "25"  # MiB: everything in two buckets

# precision, processes, stage, MiB of a bucket, reduction, backend. Any two values of any two columns stand in a row: see the
# last test. A process alone has no use for a backend.
ROWS = [
    ("fp32", 1, 2, "0.06", "deferred", "auto"),
    ("fp32", 2, 0, LARGE, "overlapped", "gloo"),
    ("fp32", 4, 1, "0.002", "overlapped", "shm"),
    ("bf16", 1, 1, LARGE, "overlapped", "auto"),
    ("bf16", 2, 2, "0.002", "deferred", "gloo"),
    ("bf16", 4, 0, "0.06", "deferred", "shm"),
    ("bf16", 4, 2, "0.06", "overlapped", "gloo"),
    ("fp16", 1, 0, "0.002", "deferred", "auto"),
    ("fp16", 2, 1, "0.06", "overlapped", "gloo"),
    ("fp16", 2, 1, LARGE, "deferred", "shm"),
    ("fp16", 4, 2, LARGE, "deferred", "shm"),
]


def rows():
    """The rows above, or with ZERO_ELASTIC_ROWS=all the whole product of their columns."""
    if os.environ.get("ZERO_ELASTIC_ROWS") != "all":
        return ROWS
    precisions, _, stages, buckets, reductions, _ = (sorted(set(column)) for column in zip(*ROWS))
    places = [(1, "auto"), *itertools.product((2, 4), ("gloo", "shm"))]
    return [(precision, world, stage, bucket, reduction, backend) for precision in precisions for world, backend in places
            for stage in stages for bucket in buckets for reduction in reductions]


def flags_of(stage, bucket, reduction):
    return ["--stage", str(stage), "--bucket-mib", bucket, *(["--defer-reduction"] if reduction == "deferred" else [])]


def step_directory(root, step=STEPS):
    return os.path.join(root, f"step_{step:012d}")


def read_log(path, *keys):
    with open(path, encoding="utf-8") as file:
        return [[line[key] for key in keys] for line in map(json.loads, file)]


class Elastic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.number = itertools.count()

    def new_root(self):
        return os.path.join(self.folder, f"run{next(self.number)}")

    def train(self, root, precision, world, *extra, backend="auto"):
        """Leaves checkpoints in `root` and its log beside it."""
        code, out, err = ranks.run([ranks.program("minigpt"), *TINY, "--precision", precision, "--checkpoint", root, "--log",
                                    root + ".jsonl", *extra], ranks=world, ZERO_BACKEND=backend)
        self.assertEqual(code, 0, (out, err))
        if backend != "auto":
            self.assertIn(f"on {world} ranks ({backend})", out)
        return root

    def reference(self, precision, cache={}):
        """One process without a launcher, stage 0, everything by default."""
        if precision not in cache:
            cache[precision] = self.train(self.new_root(), precision, 0, "--stage", "0", *DROPOUT)
        return cache[precision]

    def differences(self, a, b):
        result = subprocess.run([ranks.ZERO, "diff", step_directory(a), step_directory(b)], capture_output=True, text=True,
                                check=False)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        return result.stdout if result.returncode else ""

    def assert_equal(self, root, precision, bucket=LARGE):
        expected = self.reference(precision)
        self.assertEqual(self.differences(expected, root), "")
        # The norm's blocks begin where buckets do: its last bit may depend on their size.
        keys = ["step", "loss", "applied", "loss_scale"] + (["grad_norm"] if bucket == LARGE else [])
        self.assertEqual(read_log(root + ".jsonl", *keys), read_log(expected + ".jsonl", *keys))

    def test_the_same_bytes_on_every_world_stage_precision_bucket_and_backend(self):
        done = 0
        for precision, world, stage, bucket, reduction, backend in rows():
            with self.subTest(precision=precision, world=world, stage=stage, bucket=bucket, reduction=reduction, backend=backend):
                root = self.train(self.new_root(), precision, world, *flags_of(stage, bucket, reduction), "--checksum-every",
                                  "10", *DROPOUT, backend=backend)
                self.assert_equal(root, precision, bucket)
                shutil.rmtree(root)
                done += 1
        print(f"{done} rows", file=sys.stderr)

    def test_4_2_1_and_4_processes_again_give_the_bytes_of_one_run(self):
        legs = ((13, 4, 2, "overlapped", "shm"), (26, 2, 0, "deferred", "gloo"), (37, 1, 1, "overlapped", "auto"),
                (50, 4, 1, "deferred", "gloo"))
        for precision in ("fp32", "bf16", "fp16"):
            root = self.new_root()
            for last, world, stage, reduction, backend in legs:
                resume = ["--resume", "auto", "--reshard-on-load"] if last != legs[0][0] else []
                self.train(root, precision, world, *flags_of(stage, LARGE, reduction), "--stop-after", str(last), *resume,
                           *DROPOUT, backend=backend)
            with self.subTest(precision=precision):
                self.assert_equal(root, precision)

    def test_the_comparison_can_fail(self):
        for extra in (["--dropout", "0"], ["--dropout", "0.2001"], ["--dropout", "0.2", "--seed", "2"]):
            other = self.train(self.new_root(), "fp32", 0, "--stage", "0", *extra)
            self.assertRegex(self.differences(self.reference("fp32"), other), r"parameter .*, master: ")

    def test_some_steps_in_fp16_are_skipped_and_most_are_not(self):
        applied = [line[0] for line in read_log(self.reference("fp16") + ".jsonl", "applied")]
        self.assertIn(False, applied)
        self.assertGreater(sum(applied), 30)

    def test_every_two_values_of_every_two_columns_stand_in_a_row(self):
        columns = list(zip(*ROWS))
        for a, b in itertools.combinations(range(len(columns)), 2):
            expected = {(x, y) for x in columns[a] for y in columns[b]}
            if b == 5:
                expected = {(x, y) for x, y in expected if y != "auto"}
                expected -= {(1, "gloo"), (1, "shm")}
            self.assertLessEqual(expected, set(zip(columns[a], columns[b])), (a, b))


if __name__ == "__main__":
    unittest.main(verbosity=2)
