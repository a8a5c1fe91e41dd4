"""The same global batch gives the same bits on one process alone, and on 1, 2 and 4 processes over shared memory and over Gloo."""

import unittest

import ranks

STEPS = "20"


BACKENDS = ("shm", "gloo")


def outcome(world, stage, dtype, wire, *extra, backend="auto"):
    arguments = [ranks.program("toy_trainer"), str(stage), dtype, wire, STEPS, *extra]
    code, out, err = ranks.run(arguments, ranks=world, ZERO_BACKEND=backend)
    assert code == 0, (code, out, err)
    lines = ranks.without_prefix(out)
    assert len(lines) == int(STEPS) + 1 and lines[-1].startswith("digest "), out
    return lines


class EqualBits(unittest.TestCase):
    def compare(self, dtype, wire, worlds_and_stages):
        expected = outcome(0, 0, dtype, wire)  # alone, without a launcher
        for world, stage in worlds_and_stages:
            for backend in BACKENDS:
                with self.subTest(dtype=dtype, wire=wire, world=world, stage=stage, backend=backend):
                    self.assertEqual(outcome(world, stage, dtype, wire, backend=backend), expected)

    def test_fp32(self):
        self.compare("fp32", "auto", [(1, 2), (2, 0), (2, 1), (2, 2), (4, 2)])

    def test_fp32_with_bf16_on_the_wire(self):
        self.compare("fp32", "bf16", [(2, 0), (2, 2)])

    def test_bf16(self):
        self.compare("bf16", "auto", [(2, 1), (2, 2)])

    def test_fp16_with_loss_scaling(self):
        self.compare("fp16", "auto", [(2, 0), (2, 2)])

    def test_an_overflow_on_one_rank_is_skipped_by_all_alike(self):
        expected = outcome(0, 0, "fp16", "auto", "overflow=7")
        before, skipped, after = (line.split() for line in expected[6:9])
        self.assertEqual((before[7], skipped[7], after[7]), ("1", "0", "1"), expected)
        self.assertEqual(float(skipped[9]), float(before[9]) / 2)
        self.assertEqual(skipped[10], "gain")
        for world, stage in ((2, 0), (2, 1), (2, 2)):
            for backend in BACKENDS:
                with self.subTest(world=world, stage=stage, backend=backend):
                    self.assertEqual(outcome(world, stage, "fp16", "auto", "overflow=7", backend=backend), expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
