#!/usr/bin/env python3
"""The checkers of documents must themselves be able to fail: each case is a small repository and what must be said."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FENCE = "```"


def run_docs(text):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "page.md").write_text(text)
        (root / "build").mkdir()
        (root / "build" / "here").touch()
        result = subprocess.run([sys.executable, HERE / "docs_commands_test.py", root, root / "build", root / "page.md"],
                                capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


def check_text(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        subprocess.run(["git", "-C", root, "add", "-A"], check=True)
        result = subprocess.run([sys.executable, HERE.parent / "scripts" / "check_product_text", root],
                                capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


def with_skip_reasons(log, printed):
    """What scripts/with_skip_reasons makes of ctest's log and of what ctest prints."""
    with tempfile.TemporaryDirectory() as folder:
        logs = pathlib.Path(folder) / "Testing" / "Temporary"
        logs.mkdir(parents=True)
        (logs / "LastTest.log").write_text(log)
        result = subprocess.run([HERE.parent / "scripts" / "with_skip_reasons", folder], input=printed, capture_output=True,
                                text=True)
        return result.returncode, result.stdout, result.stderr


class SkipReasons(unittest.TestCase):
    printed = "1/4 Test #1: A.b ... Skipped\n\n100% tests passed, 0 tests failed out of 4\n\nTotal Test time (real) = 1 sec\n"

    def test_each_kind_of_skip_is_said_before_the_closing_lines(self):
        log = ("1/4 Testing: A.b\n../a_test.cpp:7: Skipped\nno such machine\n\n"
               "2/4 Testing: python\ntest_x (__main__.X.test_x) ... skipped 'needs root'\n"
               "3/4 Testing: program\nskipped: no strace here\n4/4 Testing: fine\n")
        code, out, _ = with_skip_reasons(log, self.printed)
        lines = ["skipped: A.b: no such machine", "skipped: python, test_x: needs root", "skipped: program: no strace here"]
        self.assertEqual(code, 0)
        self.assertEqual(out, self.printed.replace("100%", "\n".join(lines) + "\n100%"))

    def test_a_skip_without_a_reason_is_an_error(self):
        code, _, error = with_skip_reasons("1/4 Testing: A.b\n../a_test.cpp:7: Skipped\n\n", self.printed)
        self.assertEqual((code, "does not say why: A.b" in error), (1, True), error)
        code, _, error = with_skip_reasons("", self.printed + "The following tests did not run:\n\t12 - B.c (Skipped)\n")
        self.assertEqual((code, "does not say why: B.c" in error), (1, True), error)

    def test_nothing_skipped_changes_nothing(self):
        self.assertEqual(with_skip_reasons("1/1 Testing: A.b\n[       OK ] A.b\n", self.printed), (0, self.printed, ""))


class DocumentCommands(unittest.TestCase):
    def block(self, marker, body, language="sh"):
        return f"text\n\n{marker}\n{FENCE}{language}\n{body}\n{FENCE}\n"

    def test_marked_block_runs_in_the_build_folder(self):
        code, output = run_docs(self.block("<!-- test: run -->", "test -e build/release/here"))
        self.assertEqual((code, "1 passed, 0 failed" in output), (0, True), output)

    def test_failing_command_fails_even_if_the_last_one_is_fine(self):
        code, output = run_docs(self.block("<!-- test: run -->", "false\ntrue"))
        self.assertEqual((code, "page.md:4: FAILED" in output), (1, True), output)

    def test_unmarked_block_is_not_run(self):
        code, output = run_docs(self.block("", "false") + self.block("<!-- test: run -->", "true"))
        self.assertEqual(code, 0, output)

    def test_missing_program_is_skipped_aloud(self):
        code, output = run_docs(self.block("<!-- test: run needs=bin/absent -->", "false"))
        self.assertEqual((code, "skipped: this build has no bin/absent" in output), (0, True), output)

    def test_documents_without_any_block_are_an_error(self):
        self.assertEqual(run_docs("nothing to run\n")[0], 1)

    def test_output_is_compared_line_by_line_in_order(self):
        def judge(body, expected):
            text = self.block("<!-- test: run -->", body) + self.block("<!-- test: output -->", expected, "text")
            return run_docs(text)

        body = "echo one; echo '[1] two and 2.5 MiB'; echo three"
        for fine in ("one\nthree", "two and ... MiB", "three", "one\n...\nthree"):
            self.assertEqual(judge(body, fine)[0], 0, fine)
        for wrong, line in (("four", "four"), ("three\none", "one"), ("tw", "tw"), ("one\n...\n...\n...", "...")):
            code, output = judge(body, wrong)
            self.assertEqual((code, f"    {line}\n" in output), (1, True), output)
        self.assertNotEqual(run_docs(self.block("<!-- test: output -->", "one", "text"))[0], 0)
        self.assertEqual(judge("false", "one")[0], 1)

    def test_misspelt_and_stray_markers_are_errors(self):
        for text in (self.block("<!-- test: rnu -->", "true"), "<!-- test: run -->\nprose\n", "<!-- test: run -->\n",
                     self.block("<!-- test: run -->", "x", "cpp")):
            self.assertNotEqual(run_docs(text)[0], 0, text)


class ProductText(unittest.TestCase):
    good = {"LICENSE": "free\n", "lib/a.cpp": "int a;\n", "lib/README.md": "what is here\n"}

    def assert_problem(self, files, words):
        code, output = check_text(files)
        self.assertEqual((code, words in output), (1, True), output)

    def test_good_repository_passes(self):
        self.assertEqual(check_text(self.good)[0], 0)

    def test_each_fault_is_named_with_its_place(self):
        for text, words in [
            ("// see /" + "home/me/notes\n", "lib/b.cpp:1: a folder of one machine"),
            ("int b;\n// TO" + "DO: more\n", "lib/b.cpp:2: work left for later"),
            ("// for iss" + "ue #12\n", "lib/b.cpp:1: a number that only a tracker explains"),
            ("<<<<<" + "<< HEAD\n", "lib/b.cpp:1: an unresolved merge"),
            ("int x;\n" * 451, "lib/b.cpp: 451 lines"),
        ]:
            self.assert_problem({**self.good, "lib/b.cpp": text}, words)

    def test_missing_readme_and_licence_are_named(self):
        self.assert_problem({**self.good, "other/c.h": "\n"}, "other/README.md: missing")
        self.assert_problem({"lib/README.md": "x\n"}, "LICENSE: missing")


if __name__ == "__main__":
    unittest.main()
