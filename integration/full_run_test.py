"""The demo's training, whole: MiniGPT with its defaults on two ranks with ZeRO-2 learns what it must learn."""

import json
import os
import tempfile
import time
import unittest

import ranks

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "minigpt", "data", "tinyshakespeare.txt")


class FullRun(unittest.TestCase):
    def test_validation_loss_falls_from_about_5_5_below_2_45(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            started = time.monotonic()
            code, out, err = ranks.run([ranks.program("minigpt"), "--data", DATA, "--log", log], ranks=2, timeout=540)
            self.assertEqual(code, 0, (out, err))
            print(out, f"\n{time.monotonic() - started:.0f} s")
            with open(log, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        losses = {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line}
        self.assertEqual(list(losses), [0, 100, 200, 300, 400])
        self.assertAlmostEqual(losses[0], 5.55, delta=0.1)
        self.assertLess(losses[400], 2.45)
        self.assertEqual(sum(1 for line in lines if line.get("applied")), 400)
        text = "\n".join(ranks.without_prefix(out)).split("sample: ", 1)[1]
        self.assertGreaterEqual(len(text), 290)  # 300 characters, trailing line ends may be lost


if __name__ == "__main__":
    unittest.main(verbosity=2)
