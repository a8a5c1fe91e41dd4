"""What `zero estimate` says, beside the most memory that MiniGPT really has resident on two ranks."""

import json
import os
import sys
import tempfile
import unittest

import ranks

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "examples", "minigpt", "data", "tinyshakespeare.txt")
WORLD = 2
# layers, width, heads, context, sequences a call. The small one shows what a process has without a model.
SMALL = (1, 32, 2, 32, 1)
STATE = (8, 512, 8, 64, 1)  # 25.5 million parameters, hardly an activation
ACTIVATIONS = (4, 512, 8, 256, 4)  # 128 MiB of activations


def measured(model, stage):
    """Of the fullest rank: what /proc calls VmHWM, asked for when the rank has ended."""
    layers, width, heads, context, micro = model
    with tempfile.TemporaryDirectory() as folder:
        arguments = [sys.executable, os.path.join(HERE, "peak_memory.py"), folder, ranks.program("minigpt"), "--data", DATA,
                     "--layers", str(layers), "--width", str(width), "--heads", str(heads), "--context", str(context),
                     "--micro-batch", str(micro), "--batch", str(2 * WORLD * micro), "--stage", str(stage), "--steps", "2",
                     "--precision", "fp32", "--eval-every", "0", "--sample", "0"]
        code, out, err = ranks.run(arguments, ranks=WORLD)
        if code != 0:
            raise RuntimeError((out, err))
        peaks = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                peaks.append(int(file.read()))
        if len(peaks) != WORLD:
            raise RuntimeError(f"{len(peaks)} ranks have said how much they had")
        return max(peaks)


def estimated(model, stage):
    layers, width, heads, context, micro = model
    code, out, err = ranks.run([ranks.ZERO, "estimate", "--layers", str(layers), "--hidden", str(width), "--heads", str(heads),
                                "--vocabulary", "256", "--context", str(context), "--micro-batch", str(micro), "--stage",
                                str(stage), "--world", str(WORLD), "--fused-attention", "--no-dropout", "--json"])
    if code != 0:
        raise RuntimeError((out, err))
    return json.loads(out)["rows"][0]["total"]


class Estimate(unittest.TestCase):
    def test_it_is_within_10_percent_of_what_minigpt_has_resident_beyond_a_process_without_model(self):
        for name, model, stage in (("state", STATE, 0), ("state", STATE, 1), ("state", STATE, 2),
                                   ("activations", ACTIVATIONS, 2)):
            with self.subTest(model=name, stage=stage):
                real = measured(model, stage) - measured(SMALL, stage)
                said = estimated(model, stage) - estimated(SMALL, stage)
                print(f"{name}, stage {stage}: {said / 2**20:.1f} MiB said, {real / 2**20:.1f} MiB taken")
                self.assertGreater(real, 200 << 20)
                self.assertAlmostEqual(said / real, 1.0, delta=0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
