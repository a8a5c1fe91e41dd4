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
