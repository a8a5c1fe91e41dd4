"""examples/mlp: the step from LibTorch to libzero is ten lines, the document shows them, and both programs learn the same."""

import difflib
import pathlib
import re
import unittest

import ranks

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 10
STEPS = "1001"


def source(name):
    return (ROOT / "examples" / "mlp" / name).read_text(encoding="utf-8").splitlines()


def difference():
    """The lines of a unified diff that begin with + or -."""
    lines = list(difflib.unified_diff(source("plain.cpp"), source("sharded.cpp"), n=0, lineterm=""))[2:]
    return [line for line in lines if not line.startswith("@@")]


def losses(text):
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss ([\d.]+)", text)}


class Mlp(unittest.TestCase):
    def run_one(self, name, world=0):
        code, out, err = ranks.run([ranks.program(name), STEPS], ranks=world)
        self.assertEqual(code, 0, (out, err))
        return "\n".join(ranks.without_prefix(out))

    def test_the_step_is_at_most_ten_lines_and_the_document_shows_them(self):
        lines = difference()
        self.assertLessEqual(sum(line.startswith("+") for line in lines), MOST_LINES)
        document = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
        shown = re.search(r"```diff\n(.*?)\n```", document, re.S)
        self.assertIsNotNone(shown, "docs/migration.md has no block of diff")
        self.assertEqual(shown.group(1), "\n".join(lines), "docs/migration.md shows other lines: put these there")

    def test_both_programs_are_small(self):
        for name in ("plain.cpp", "sharded.cpp"):
            self.assertLess(len(source(name)), 200)

    def test_one_and_two_ranks_print_the_same_and_both_learn_as_plain_libtorch_does(self):
        plain = self.run_one("mlp_plain")
        alone = self.run_one("mlp_sharded")
        self.assertEqual(self.run_one("mlp_sharded", world=1), alone)
        self.assertEqual(self.run_one("mlp_sharded", world=2), alone)
        self.assertEqual(sorted(losses(plain)), list(range(0, 1001, 100)))
        # Sums of micro-gradients are rounded in another order than LibTorch's.
        for step, loss in losses(plain).items():
            self.assertAlmostEqual(losses(alone)[step], loss, delta=0.02)
        self.assertLess(losses(alone)[1000], 0.3 * losses(alone)[0])
        self.assertRegex(alone, r"accuracy 0\.9\d+")

    def test_ranks_among_which_a_step_cannot_be_divided_say_so_in_one_line_each_and_exit_with_one(self):
        code, _, err = ranks.run([ranks.program("mlp_sharded"), "3"], ranks=3)
        self.assertEqual(code, 1, err)
        said = [line for line in ranks.without_prefix(err) if not line.startswith(("zero run: ", "connect: "))]
        self.assertTrue(said, err)
        for line in said:
            self.assertTrue(line.startswith("mlp: "), err)
        self.assertTrue(any("different numbers of backward calls" in line for line in said), err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
