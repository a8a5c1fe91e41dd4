"""docs/options.md names every option and every environment variable that the code has, with its default, and no other.

usage: options_test.py <repository>
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
STRUCT = re.compile(r"^struct (\w+)[^;{]*\{\n(.*?)^\};", re.M | re.S)
ARGUMENT = re.compile(r"TORCH_ARG\(\s*(?:[^()]|\([^()]*\))*?,\s*(\w+)\)\s*(?:=\s*([^;]+))?;")
# Structs of options without builders: their members.
PLAIN = {"libzero/optim/loss_scaler.h": "LossScalerOptions", "backends/connect.h": "ConnectOptions"}
MEMBER = re.compile(r"^  [\w:<>, ]+? (\w+) = ([^;]+);", re.M)
# A name in quotes, or what getenv is given.
VARIABLE = re.compile(r'"(ZERO_[A-Z][A-Z_]*)"|getenv\("(\w+)"\)')
ROW = re.compile(r"^\| `(\w+)` \| (?:`([^`]*)` )?\|", re.M)


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path, path.read_text(encoding="utf-8")


def default(text):
    return re.sub(r"\s+", " ", text or "").strip()


def options_of_code():
    """{struct: {option: default}}"""
    found = {}
    for path, text in sources("libzero", "backends", "checkpoint"):
        for name, body in STRUCT.findall(text):
            arguments = {option: default(value) for option, value in ARGUMENT.findall(body)}
            if PLAIN.get(path.relative_to(ROOT).as_posix()) == name:
                arguments |= {option: default(value) for option, value in MEMBER.findall(body)}
            if arguments:
                found[name] = arguments
    return found


def variables_of_code():
    return {a or b for _, text in sources("libzero", "backends", "checkpoint", "cli", "examples") for a, b in VARIABLE.findall(text)}


def sections(document):
    """{title of a section, without backticks: its text}"""
    parts = re.split(r"^## (.*)$", document, flags=re.M)
    return {title.strip().strip("`"): text for title, text in zip(parts[1::2], parts[2::2])}


class Options(unittest.TestCase):
    def setUp(self):
        self.sections = sections((ROOT / "docs" / "options.md").read_text(encoding="utf-8"))

    def test_every_option_of_the_code_stands_there_with_its_default_and_no_other(self):
        code = options_of_code()
        self.assertGreater(len(code), 5)
        document = {title: dict(ROW.findall(text)) for title, text in self.sections.items() if title in code}
        self.assertEqual(document, code)

    def test_every_section_is_of_a_struct_or_of_the_environment(self):
        self.assertEqual(set(self.sections) - set(options_of_code()), {"Environment variables"})

    def test_every_environment_variable_of_the_code_stands_there_and_no_other_of_libzero(self):
        documented = {name for name, _ in ROW.findall(self.sections["Environment variables"])}
        code = variables_of_code()
        self.assertEqual(code - documented, set())
        self.assertEqual({name for name in documented if name.startswith("ZERO_")} - code, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
