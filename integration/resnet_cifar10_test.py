"""examples/resnet_cifar10 as its users run it, on images in CIFAR-10's format that are drawn here."""

import pathlib
import random
import re
import signal
import tempfile
import unittest

import ranks

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = 1 + 3 * 32 * 32
TRAINING, TEST = 240, 75
SMALL = ["--files", "2", "--width", "8", "--batch", "24", "--micro-batch", "12", "--label-smoothing", "0"]


def write_images(path, count, seed):
    """Each class has a colour of its own; noise of nearly that strength lies on it."""
    draw = random.Random(seed)
    with open(path, "wb") as file:
        for i in range(count):
            label = i % 10
            colour = random.Random(label + 100)
            file.write(bytes([label]))
            for _ in range(3):
                level = colour.randrange(40, 215)
                file.write(bytes(level + draw.randrange(-40, 41) for _ in range(32 * 32)))


class ResNet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.data = pathlib.Path(cls.shared.name)
        write_images(cls.data / "data_batch_1.bin", TRAINING // 2, 1)
        write_images(cls.data / "data_batch_2.bin", TRAINING // 2, 2)
        write_images(cls.data / "test_batch.bin", TEST, 3)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, *extra, data=None):
        return [ranks.program("resnet_cifar10"), "--data", str(data or self.data), *SMALL, *extra]

    def train(self, *extra, world=0):
        """What it said, without images per second."""
        code, out, err = ranks.run(self.command(*extra), ranks=world)
        self.assertEqual(code, 0, (out, err))
        return [re.sub(r" +\d+ images/s$", "", line) for line in ranks.without_prefix(out)]

    def refuse(self, code, *extra, world=0, data=None):
        """The one complaint; about files each rank may have its own."""
        got, out, err = ranks.run(self.command("--steps", "4", *extra, data=data), ranks=world)
        self.assertEqual(got, code, (out, err))
        complaints = [line for line in ranks.without_prefix(err) if line.startswith("resnet_cifar10:")]
        self.assertTrue(len(complaints) == 1 or (code == 3 and complaints), err)
        return complaints[0]

    @staticmethod
    def losses(lines):
        return [line for line in lines if re.match(r"step \d+/\d+ +loss", line)]

    def same_checkpoint(self, one, other):
        code, out, err = ranks.run([ranks.ZERO, "diff", str(one), str(other)])
        self.assertEqual(code, 0, (out[:500], err))

    def test_two_ranks_learn_to_tell_the_classes_apart(self):
        lines = self.train("--steps", "60", "--eval-every", "30", "--lr", "0.01", world=2)
        losses = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in self.losses(lines)]
        self.assertEqual(len(losses), 20)
        self.assertGreater(losses[0], 1.9)
        self.assertLess(losses[-1], 0.5 * losses[0])
        scores = re.findall(rf"step (\d+): test loss [\d.]+, accuracy ([\d.]+) % of {TEST} images", "\n".join(lines))
        self.assertEqual([int(step) for step, _ in scores], [30, 60])
        self.assertGreater(float(scores[-1][1]), 60)  # by chance: 10

    def test_losses_are_equal_on_1_and_2_ranks_and_at_each_stage(self):
        expected = self.losses(self.train("--steps", "5", "--clip", "1"))
        self.assertEqual(len(expected), 5)
        for world, stage in ((2, 0), (2, 1), (2, 2)):
            lines = self.train("--steps", "5", "--clip", "1", "--stage", str(stage), world=world)
            self.assertEqual(self.losses(lines), expected, stage)

    def test_bf16_convolutions_train_nearly_alike(self):
        steps = ("--steps", "4")
        values = [[float(re.search(r"loss ([\d.]+)", line)[1]) for line in self.losses(self.train(*steps, *extra))]
                  for extra in ((), ("--precision", "bf16"))]
        self.assertNotEqual(*values)
        for fp32, bf16 in zip(*values):
            self.assertAlmostEqual(fp32, bf16, delta=0.05)

    def test_an_interrupted_run_ends_with_the_bits_of_a_whole_one_in_the_middle_of_an_epoch_too(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        steps = ("--steps", "16")  # 10 are an epoch
        self.train(*steps, "--checkpoint", str(whole), world=2)
        self.train(*steps, "--checkpoint", str(parts), "--stop-after", "13", "--save-every", "4", world=2)
        lines = self.train(*steps, "--checkpoint", str(parts), "--resume", "auto", world=2)
        self.assertIn("resumed after step 13", "\n".join(lines))
        self.same_checkpoint(whole / "step_000000000016", parts / "step_000000000016")

    def test_a_run_goes_on_on_one_rank(self):
        run = self.folder / "run"
        expected = self.losses(self.train("--steps", "6", world=2))
        self.train("--steps", "6", "--stop-after", "3", "--checkpoint", str(run), world=2)
        self.assertIn("does not fit", self.refuse(2, "--checkpoint", str(run), "--resume", "auto"))
        lines = self.train("--steps", "6", "--checkpoint", str(run), "--resume", "auto", "--reshard-on-load")
        self.assertEqual(self.losses(lines), expected[3:])

    def test_a_checkpoint_holds_what_all_ranks_know_of_batchnorm(self):
        # Each rank tests a part of the images: were their statistics apart, one rank alone would come to another loss.
        run = ("--steps", "6", "--checkpoint", str(self.folder / "run"))
        last = self.train(*run, world=2)[-1]
        self.assertRegex(last, r"step 6: test loss")
        again = self.train(*run, "--resume", "auto", "--reshard-on-load")
        self.assertEqual(again[-1], last)

    def test_ctrl_c_saves_and_says_so(self):
        run = self.folder / "run"
        job = ranks.start(self.command("--steps", "100000", "--checkpoint", str(run), "--save-every", "1", "--keep", "1"), 2)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        for line in job.stdout:
            if "images/s" in line or "resnet_cifar10:" in line:
                break
        while not list(run.glob("step_*")):  # until then a signal may come before its handler
            self.assertIsNone(job.poll(), "the run ended by itself")
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=100 * ranks.SLOWDOWN)
        self.assertEqual(job.returncode, 0, out)
        step = int(re.search(r"asked to stop after step (\d+)", out)[1])
        self.assertIn(f"step_{step:012}", [path.name for path in run.iterdir()])

    def test_a_missing_and_a_short_file_are_named(self):
        self.assertIn("data_batch_3.bin", self.refuse(3, "--files", "3"))
        for path in self.data.iterdir():
            (self.folder / path.name).write_bytes(path.read_bytes())
        with open(self.folder / "data_batch_2.bin", "r+b") as file:
            file.truncate(5 * RECORD + 7)
        for world in (0, 2):
            complaint = self.refuse(3, data=self.folder, world=world)
            self.assertIn(f"data_batch_2.bin: byte {5 * RECORD}", complaint)
        self.assertIn("nowhere", self.refuse(3, data=self.folder / "nowhere"))

    def test_wrong_flags_are_told_once(self):
        for extra, words in ((("--batch", "30"), "try --batch 36"), (("--stage", "3"), "--stage"),
                             (("--resume", "auto"), "--resume auto needs --checkpoint"),
                             (("--save-every", "2"), "--save-every needs --checkpoint"),
                             (("--reshard-on-load",), "--reshard-on-load needs --resume"),
                             (("--resume", str(self.folder)), "there is no checkpoint here")):
            self.assertIn(words, self.refuse(2, *extra))
        self.assertIn("try --batch 48", self.refuse(2, "--batch", "36", world=2))
        code, out, _ = ranks.run([ranks.program("resnet_cifar10"), "--help"])
        self.assertEqual((code, "Example: zero run -n 2 -- resnet_cifar10" in out), (0, True), out)

    def test_files_are_short_enough_to_copy(self):
        for path in (ROOT / "examples" / "resnet_cifar10").iterdir():
            self.assertLess(len(path.read_text(encoding="utf-8").splitlines()), 200, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
