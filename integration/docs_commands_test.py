#!/usr/bin/env python3
"""Runs the commands that the documents show.

A fenced sh block is run when the line before it (blank lines aside) says so:

    <!-- test: run -->
    <!-- test: run needs=bin/zero,bin/minigpt -->   skipped, aloud, where the build has no such program

Each block is one shell with `-euo pipefail`, started in the repository's root; `build/release` in it stands for the
build folder under test. A block ends with exit code 0 or the test fails.

What a block prints is compared where a text block after it has a marker of its own:

    <!-- test: output -->

Each of its lines must be a line of the output, in this order; others may lie between. "..." in a line stands for anything,
prefixes of ranks ("[0] ") are left out.

usage: docs_commands_test.py <repository> <build folder> [document...]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

MARKER = re.compile(r"^<!-- test: (?P<what>.*?) -->$")
PREFIX = re.compile(r"^\[\d+\] ")  # of zero run
SECONDS = 120 * float(os.environ.get("ZERO_TEST_SLOWDOWN", "1"))


class Block:
    def __init__(self, document, line, needs, text):
        self.document, self.line, self.needs, self.text = document, line, needs, text
        self.expected = []

    def __str__(self):
        return f"{self.document}:{self.line}"


def parse_marker(where, what):
    """The list of programs that a marked block needs."""
    words = what.split()
    if not words or words[0] != "run" or any(not word.startswith("needs=") for word in words[1:]):
        raise ValueError(f"{where}: unknown marker 'test: {what}'; write 'test: run', 'test: run needs=bin/name' or 'test: output'")
    return [name for word in words[1:] for name in word[len("needs="):].split(",")]


def fences_of(document, text):
    """Each fenced block as (line number, language, body, what the marker before it says or None)."""
    marker, body = None, None
    for number, line in enumerate(text.splitlines(), start=1):
        if body is not None:
            if line.strip() == "```":
                yield start, language, "\n".join(body) + "\n", marker
                marker, body = None, None
            else:
                body.append(line)
        elif line.startswith("```"):
            language, start, body = line[3:].strip(), number, []
        elif match := MARKER.match(line.strip()):
            marker = match["what"]
        elif marker and line.strip():
            raise ValueError(f"{document}:{number}: a test marker must stand right before its block")
    if marker:
        raise ValueError(f"{document}: a test marker has no block after it")


def blocks_of(document, text):
    blocks = []
    for line, language, body, marker in fences_of(document, text):
        where = f"{document}:{line}"
        if marker is None:
            continue
        if marker == "output":
            if language != "text" or not blocks or blocks[-1].expected:
                raise ValueError(f"{where}: output must be a text block, one after each sh block that is run")
            blocks[-1].expected = body.splitlines()
            continue
        if language != "sh":
            raise ValueError(f"{where}: only sh blocks can be run, this one is '{language}'")
        blocks.append(Block(document, line, parse_marker(where, marker), body))
    return blocks


def unexpected(expected, output):
    """The first line of `expected` that does not come; None if all do."""
    lines = iter([PREFIX.sub("", line.rstrip()) for line in output.splitlines()])
    for wanted in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.rstrip().split("...")))
        if not any(pattern.fullmatch(line) for line in lines):
            return wanted
    return None


def run(block, repository, build, scratch):
    script = block.text.replace("build/release", str(build))
    environment = dict(os.environ, TMPDIR=scratch, HOME=os.environ.get("HOME", scratch))
    try:
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=repository, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=SECONDS, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    if result.returncode != 0:
        return f"exit code {result.returncode}\n{script}--- output:\n{result.stdout}"
    if (line := unexpected(block.expected, result.stdout)) is not None:
        return f"no line of the output, or none at this place, is\n    {line}\n--- output:\n{result.stdout}"
    return None


def main():
    repository, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    documents = [pathlib.Path(name) for name in sys.argv[3:]] or [
        repository / "README.md", repository / "CONTRIBUTING.md", *sorted((repository / "docs").glob("*.md"))]
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        for document in documents:
            name = os.path.relpath(document, repository)
            for block in blocks_of(name, document.read_text(encoding="utf-8")):
                missing = [need for need in block.needs if not (build / need).exists()]
                if missing:
                    print(f"{block}: skipped: this build has no {', '.join(missing)}")
                    skipped += 1
                elif problem := run(block, repository, build, scratch):
                    print(f"{block}: FAILED: {problem}")
                    failed += 1
                else:
                    print(f"{block}: ok")
                    passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
