"""MiniGPT as its users run it: logs, equal losses on 1 and 2 ranks, schedule, samples, and every way to misuse it."""

import json
import math
import os
import pty
import re
import socket
import subprocess
import tempfile
import unittest

import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
TINY = ["--data", DATA, "--layers", "1", "--width", "32", "--heads", "2", "--context", "32", "--batch", "8", "--micro-batch",
        "2", "--steps", "8", "--warmup", "3", "--eval-every", "0", "--sample", "0", "--precision", "fp32"]


def read_log(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def shown(line):
    """What is left of it when it has been written over itself."""
    text = ""
    for part in line.split("\r"):
        kept, erases, rest = part.rpartition("\x1b[K")
        text = kept.replace("\x1b[K", "") + rest + ("" if erases else text[len(part):])
    return text


class MiniGpt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, extra=(), world=0, name="log.jsonl"):
        log = self.path(name)
        code, out, err = ranks.run([ranks.program("minigpt"), *TINY, "--log", log, *extra], ranks=world)
        self.assertEqual(code, 0, (out, err))
        return read_log(log), out

    def refuse(self, extra, *words, world=0):
        code, out, err = ranks.run([ranks.program("minigpt"), *TINY, *extra], ranks=world)
        self.assertEqual(code, 2, (out, err))
        complaints = [line for line in ranks.without_prefix(err) if line.startswith("minigpt:")]
        self.assertEqual(len(complaints), 1, err)
        for word in words:
            self.assertIn(word, complaints[0])
        if world == 0:
            self.assertEqual(len(err.splitlines()), 1, err)

    def test_losses_norms_and_samples_are_equal_on_1_and_2_ranks_at_every_stage(self):
        keys = ("step", "loss", "lr", "applied", "grad_norm", "clip_factor", "loss_scale", "samples")
        expected = None
        for world, stage in ((0, 2), (2, 0), (2, 1), (2, 2), (4, 2)):
            log, _ = self.train(["--stage", str(stage), "--log-samples", "--eval-every", "4"], world, f"{world}{stage}.jsonl")
            kept = [{k: line[k] for k in keys if k in line} | {k: line[k] for k in ("eval_loss",) if k in line} for line in log]
            expected = expected or kept
            self.assertEqual(kept, expected, f"world {world} stage {stage}")
        self.assertEqual([line["step"] for line in expected if "eval_loss" in line], [0, 4, 8])

    def test_the_log_says_everything_of_each_step(self):
        log, _ = self.train()
        self.assertEqual([line["step"] for line in log], list(range(1, 9)))
        for line in log:
            self.assertEqual(set(line), {"step", "loss", "lr", "applied", "reason", "grad_norm", "clip_factor", "loss_scale",
                                         "tokens_per_s", "step_s", "comm_s", "host_bytes"})
            self.assertGreater(line["host_bytes"], 4 * 4 * 256 * 32)  # the embedding, its accumulator, its moments
            self.assertTrue(line["applied"])
            self.assertEqual((line["reason"], line["loss_scale"]), ("", 1.0))
            self.assertLessEqual(line["clip_factor"], 1.0)
            self.assertGreater(line["step_s"], line["comm_s"])
            self.assertAlmostEqual(line["tokens_per_s"], 8 * 32 / line["step_s"], delta=1e-6 * line["tokens_per_s"])
        self.assertAlmostEqual(log[0]["loss"], math.log(256), delta=0.1)

    def test_the_schedule_spans_steps_and_stop_after_cuts_it_short(self):
        def lr(step):
            if step <= 3:
                return 1e-3 * step / 3
            return 1e-4 + 0.5 * (1e-3 - 1e-4) * (1 + math.cos(math.pi * (step - 3) / 5))

        whole, _ = self.train(name="whole.jsonl")
        for line in whole:
            self.assertAlmostEqual(line["lr"], lr(line["step"]), delta=1e-12)
        self.assertAlmostEqual(whole[-1]["lr"], 1e-4, delta=1e-12)
        cut, _ = self.train(["--stop-after", "5"], name="cut.jsonl")
        self.assertEqual([line["loss"] for line in cut], [line["loss"] for line in whole[:5]])
        self.assertEqual(len(cut), 5)

    def test_every_schedule_goes_up_to_lr_once_and_then_its_own_way(self):
        down = [1e-4 + 0.45e-3 * (1 + math.cos(math.pi * k / 4)) for k in (1, 2, 3, 4)]
        for schedule, first, after in (("constant", 0.5e-3, [1e-3] * 4), ("linear", 0.5e-3, [7.75e-4, 5.5e-4, 3.25e-4, 1e-4]),
                                       ("cosine", 0.5e-3, down), ("one-cycle", 0.52e-3, down),
                                       ("polynomial", 0.5e-3, [1e-4 + 9e-4 * (1 - k / 4) ** 2 for k in (1, 2, 3, 4)]),
                                       ("inverse-sqrt", 0.5e-3, [1e-3 * math.sqrt(2 / step) for step in (3, 4, 5, 6)]),
                                       ("stable-decay", 0.5e-3, [1e-3, 1e-3, 1e-3, 1e-4])):
            with self.subTest(schedule=schedule):
                log, _ = self.train(["--schedule", schedule, "--steps", "6", "--warmup", "2"])
                for line, lr in zip(log, [first, 1e-3, *after], strict=True):
                    self.assertAlmostEqual(line["lr"], lr, delta=1e-12)

    def test_samples_are_a_permutation_for_each_epoch_and_seed(self):
        text = self.path("short.txt")
        with open(text, "wb") as file:
            file.write(bytes(range(32, 127)) * 8)  # 760 bytes: 21 windows of 32 in the first 90 %
        extra = ["--data", text, "--log-samples", "--steps", "6"]
        log, _ = self.train(extra, name="a.jsonl")
        order = [sample for line in log for sample in line["samples"]]
        self.assertEqual(sorted(order[:21]), list(range(21)))
        self.assertEqual(sorted(order[21:42]), list(range(21)))
        self.assertNotEqual(order[:21], order[21:42])
        other, _ = self.train(extra + ["--seed", "2"], name="b.jsonl")
        self.assertNotEqual(order, [sample for line in other for sample in line["samples"]])

    def test_a_repeated_option_counts_as_its_last(self):
        log, _ = self.train(["--steps", "5", "--steps", "2"])
        self.assertEqual(len(log), 2)

    def test_fp16_scales_the_loss_and_bf16_does_not(self):
        fp16, _ = self.train(["--precision", "fp16"], name="fp16.jsonl")
        self.assertGreater(fp16[-1]["loss_scale"], 1.0)
        bf16, out = self.train(["--precision", "bf16"], name="bf16.jsonl")
        self.assertTrue(all(line["loss_scale"] == 1.0 for line in bf16))
        self.assertIn("bf16", out)

    def test_autocast_changes_the_numbers_a_little_and_they_stay_equal_on_2_ranks(self):
        plain = [line["loss"] for line in self.train(name="plain.jsonl")[0]]
        log, out = self.train(["--autocast", "bf16"], name="alone.jsonl")
        losses = [line["loss"] for line in log]
        self.assertIn("fp32, products in bf16", out)
        self.assertNotEqual(losses, plain)
        for cast, loss in zip(losses, plain):
            self.assertAlmostEqual(cast, loss, delta=0.02)
        for extra in ([], ["--recompute"]):
            log, _ = self.train(["--autocast", "bf16", *extra], world=2, name="two.jsonl")
            self.assertEqual([line["loss"] for line in log], losses, extra)

    def test_sgd_and_an_average_of_the_weights_have_the_same_bits_on_2_ranks_and_after_a_resume(self):
        def numbers(log):
            return [tuple(line.get(key) for key in ("step", "loss", "grad_norm", "eval_loss")) for line in log]

        flags = ["--optimizer", "sgd", "--momentum", "0.8", "--lr", "0.05", "--eval-every", "4"]
        whole = numbers(self.train([*flags, "--ema", "0.9"])[0])
        self.assertEqual(numbers(self.train([*flags, "--ema", "0.9"], world=2, name="2.jsonl")[0]), whole)
        plain = numbers(self.train(flags, name="plain.jsonl")[0])
        self.assertEqual([line[:3] for line in plain], [line[:3] for line in whole])  # only validation sees the average
        self.assertNotEqual(plain[-1][3], whole[-1][3])
        self.assertNotEqual(numbers(self.train(["--lr", "0.05", "--eval-every", "4"], name="adamw.jsonl")[0]), plain)
        kept = ["--ema", "0.9", "--checkpoint", self.path("run")]
        self.train([*flags, *kept, "--stop-after", "4"], name="first.jsonl")
        resumed = numbers(self.train([*flags, *kept, "--resume", "auto"], name="second.jsonl")[0])
        self.assertEqual([line for line in resumed if line[0] > 4], [line for line in whole if line[0] > 4])

    def test_a_gpu_that_is_not_there_is_named(self):
        code, _, err = ranks.run([ranks.program("minigpt"), *TINY, "--device", "cuda:99"])
        self.assertEqual(code, 3, err)
        self.assertIn("cuda", err.lower())
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_it_says_which_precision_it_chose_and_generates_text(self):
        _, out = self.train(["--precision", "auto", "--sample", "40", "--steps", "2"])
        self.assertIn("fp32 (auto: on a CPU", out)
        self.assertIn("sample: ", out)

    def test_on_a_terminal_the_progress_bar_of_the_last_step_stays(self):
        for world in (0, 2):
            arguments = [ranks.program("minigpt"), *TINY, "--eval-every", "4"]
            screen = self.on_a_terminal(([ranks.ZERO, "run", "-n", "2", "--"] if world else []) + arguments)
            steps = [line for line in screen if "loss" in line]
            self.assertEqual(len(steps), 4, screen)  # the bar of step 4 made way for its validation
            for words in ("step 0: validation", "step 4: validation", "step 8/8  loss", "step 8: validation"):
                self.assertTrue(any(words in line for line in steps), (words, screen))  # zero run may swap stdout and stderr

    def on_a_terminal(self, arguments):
        """The lines that stand on a terminal in the end, without colours."""
        terminal, theirs = pty.openpty()
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=ranks.clean_environment()) as job:
            os.close(theirs)
            seen = b""
            try:
                while part := os.read(terminal, 65536):
                    seen += part
            except OSError:  # nobody has it open any more
                pass
        os.close(terminal)
        self.assertEqual(job.returncode, 0, seen)
        return [shown(line) for line in re.sub(r"\x1b\[[\d;]*m", "", seen.decode(errors="replace")).split("\n")]

    def test_the_other_ranks_do_not_wait_for_the_generated_text(self):
        arguments = [ranks.program("minigpt"), *TINY, "--steps", "1", "--sample", "4000"]
        code, out, err = ranks.run(arguments, ranks=2, ZERO_TIMEOUT="1")
        self.assertEqual(code, 0, (out[-500:], err))
        self.assertIn("sample: ", out)

    def test_a_run_that_diverges_says_so_in_words(self):
        arguments = [ranks.program("minigpt"), *TINY, "--precision", "fp16", "--lr", "1e6", "--clip", "0", "--sample", "5"]
        code, out, err = ranks.run(arguments)
        self.assertEqual(code, 3, (out, err))
        self.assertRegex(out, r"step \d+ was skipped: gradient is not finite in ")
        self.assertIn("training has diverged", err)
        self.assertNotIn("frame #", err)

    def test_bad_flags(self):
        self.refuse(["--stage", "3"], "--stage")
        self.refuse(["--no-such-flag"], "--no-such-flag")
        self.refuse(["--steps", "many"], "--steps")
        self.refuse(["--precision", "fp8"], "--precision")
        self.refuse(["--precision", "bf16", "--autocast", "bf16"], "--autocast needs --precision fp32")
        self.refuse(["--width", "33"], "--width", "--heads")
        self.refuse(["--lr", "-1"], "--lr")
        self.refuse(["--batch", "1000000000000"], "--batch", "1000000")

    def test_checkpoint_flags_that_need_one_another(self):
        for flag in (["--save-every", "5"], ["--save-initial"], ["--async-save"], ["--keep", "1"]):
            self.refuse(flag, flag[0] + " needs --checkpoint")
        self.refuse(["--resume", "auto"], "--resume auto needs --checkpoint")
        self.refuse(["--checkpoint", "c", "--reshard-on-load"], "--reshard-on-load needs --resume")
        self.refuse(["--resume", "c/step_000000000001", "--load-parameters", "w.safetensors"], "contradict")
        self.refuse(["--checkpoint", "c", "--save-every", "-1"], "--save-every")
        self.refuse(["--checkpoint", "c", "--keep", "-1"], "--keep")

    def test_bad_data(self):
        self.refuse(["--data", self.path("missing.txt")], "missing.txt")
        open(self.path("empty.txt"), "wb").close()
        self.refuse(["--data", self.path("empty.txt")], "empty.txt")
        self.refuse(["--data", self.folder], self.folder)

    def test_a_batch_that_ranks_and_micro_batches_do_not_divide(self):
        self.refuse(["--batch", "7"], "--batch", "7")
        self.refuse(["--batch", "8", "--micro-batch", "4"], "--batch", "12", world=3)
        self.refuse(["--stage", "9"], "--stage", world=2)

    def test_a_log_that_cannot_be_written(self):
        code, _, err = ranks.run([ranks.program("minigpt"), *TINY, "--log", self.path("no/such/folder.jsonl")])
        self.assertNotEqual(code, 0)
        self.assertIn("--log: ", err)
        self.assertIn("folder.jsonl", err)

    def test_what_cannot_be_had_of_a_file_a_folder_or_a_port_names_the_flag(self):
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("x")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for flag, value in (("--tensorboard", self.path("file")), ("--load-parameters", self.path("file")),
                                ("--load-parameters", self.path("none")), ("--metrics-port", str(taken.getsockname()[1]))):
                for world in (0, 2):
                    code, _, err = ranks.run([ranks.program("minigpt"), *TINY, flag, value], ranks=world)
                    self.assertEqual(code, 3, err)
                    self.assertIn(f"minigpt: {flag}: ", err)
                    self.assertIn(value, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
