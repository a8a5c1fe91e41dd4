"""Each public function says its contract, and each public class which threads may use it.

usage: docstrings_test.py <doxygen> <Doxyfile of the public headers>
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

DOXYGEN, DOXYFILE = sys.argv[1:]

# LibTorch's macro makes two functions of each option; one stands for them here.
SETTINGS = 'PREDEFINED = "TORCH_ARG(T,name)=T name()"\n'
SETTINGS += "GENERATE_HTML = NO\nGENERATE_XML = YES\nXML_PROGRAMLISTING = NO\nINHERIT_DOCS = YES\n"
CALLBACK = re.compile(r"\(\s*\*")


def squeezed(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def docstring(element):
    return (squeezed(element.find("briefdescription")) + " " + squeezed(element.find("detaileddescription"))).strip()


def line_of(element):
    return int(element.find("location").get("line"))


def file_of(element):
    return element.find("location").get("file")


def compounds_of(headers=None, strip=""):
    """Doxygen's view of `headers`; default: those that the Doxyfile names."""
    with tempfile.TemporaryDirectory() as folder:
        settings = pathlib.Path(DOXYFILE).read_text(encoding="utf-8") + SETTINGS + f"OUTPUT_DIRECTORY = {folder}\n"
        if headers is not None:
            settings += f"INPUT = {' '.join(map(str, headers))}\nSTRIP_FROM_PATH = {strip}\n"
        result = subprocess.run([DOXYGEN, "-"], input=settings, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        files = sorted((pathlib.Path(folder) / "xml").glob("*.xml"))
        return [compound for file in files for compound in xml.parse(file).getroot().findall("compounddef")]


def functions_of(compound):
    """Public functions and C callbacks, in the order of their lines."""
    found = []
    for member in compound.iterfind("sectiondef/memberdef"):
        is_callback = member.get("kind") == "variable" and CALLBACK.search(squeezed(member.find("type")))
        arguments = (member.findtext("argsstring") or "").replace(" ", "")
        if member.get("prot") != "public" or (member.get("kind") != "function" and not is_callback):
            continue
        if not arguments.endswith(("=default", "=delete")):
            found.append(member)
    return sorted(found, key=lambda member: (file_of(member), line_of(member)))


def undocumented(compounds):
    """A docstring of the class counts for the destructor and for each function that it names, as in "size()"; the docstring
    of an overload for those that follow it."""
    for compound in compounds:
        if compound.get("kind") not in ("class", "struct", "namespace", "file"):
            continue
        around, covered = docstring(compound), None
        for member in functions_of(compound):
            name = member.findtext("name")
            fine = docstring(member) or (file_of(member), name) == covered
            if compound.get("kind") in ("class", "struct") and around:
                fine = fine or name.startswith("~") or re.search(rf"\b{re.escape(name)}\(", around)
            covered = (file_of(member), name) if fine else None
            if not fine:
                named = member.findtext("qualifiedname") or name
                yield (f"{file_of(member)}:{line_of(member)}: {named}{member.findtext('argsstring')} has no docstring: what "
                       "it takes and returns, in which units, and what it throws")


def silent_on_threads(compounds):
    """Classes whose docstring, or that of the class or file around them, has no word of threads. Structs are values."""
    classes = {compound.findtext("compoundname"): compound for compound in compounds if compound.get("kind") == "class"}
    files = {file_of(compound): docstring(compound) for compound in compounds if compound.get("kind") == "file"}
    for name, compound in classes.items():
        is_error = any(base.text.endswith("Error") or base.text.startswith("std::") for base in compound.iterfind("basecompoundref"))
        if is_error or not functions_of(compound):
            continue
        outer = classes.get(name.rpartition("::")[0])
        texts = [docstring(compound), files.get(file_of(compound), ""), docstring(outer) if outer is not None else ""]
        if not any("thread" in text.lower() for text in texts):
            yield f"{file_of(compound)}:{line_of(compound)}: class {name} does not say which threads may use it"


class Docstrings(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.compounds = compounds_of()

    def test_the_public_headers_are_looked_at(self):
        self.assertGreater(sum(len(functions_of(compound)) for compound in self.compounds), 300)

    def test_each_public_function_has_one(self):
        self.assertEqual(list(undocumented(self.compounds)), [])

    def test_each_public_class_says_which_threads_may_use_it(self):
        self.assertEqual(list(silent_on_threads(self.compounds)), [])


class Checker(unittest.TestCase):
    def judge(self, text, head=""):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder) / "a.h"
            header.write_text(f"#pragma once\n\n{head}#include <b>\n" + text)
            compounds = compounds_of([header], folder)
        return [problem.partition(" has no")[0] for problem in undocumented(compounds)], list(silent_on_threads(compounds))

    def assert_judged(self, text, missing=(), silent=(), head=""):
        self.assertEqual(self.judge(text, head), (list(missing), list(silent)), text)

    def test_a_function_needs_a_docstring(self):
        self.assert_judged("namespace a {\n/// One.\nint f();\nint g(int b);\n}\n", ["a.h:7: a::g(int b)"])

    def test_the_text_at_the_head_of_a_header_is_no_function_s(self):
        self.assert_judged("int f();\n", ["a.h:6: f()"], head="/// The file.\n\n")

    def test_a_comment_that_is_no_docstring_does_not_count(self):
        self.assert_judged("namespace a {\n// One.\nint f();\n}\n", ["a.h:6: a::f()"])

    def test_an_overload_may_follow_one_that_has_a_docstring(self):
        self.assert_judged("namespace a {\n/// One.\nint f();\nint f(int b);\nint g();\nint f(long b);\n}\n",
                           ["a.h:8: a::g()", "a.h:9: a::f(long b)"])

    def test_members_need_one_each_unless_the_class_names_them(self):
        text = ("/// Thread-safe. size() counts.\nclass A {\n public:\n  ~A();\n  A() = default;\n  int size();\n  int sized();\n"
                "  int b(); ///< One.\n\n private:\n  int c();\n};\n")
        self.assert_judged(text, ["a.h:10: A::sized()"])

    def test_what_overrides_has_the_docstring_of_what_it_overrides(self):
        text = ("/// Thread-safe.\nclass A {\n public:\n  {}\n  virtual int b();\n};\n"
                "/// One thread's.\nclass C : public A {\n public:\n  int b() override;\n};\n")
        self.assert_judged(text.replace("{}", "/// One."))
        self.assert_judged(text.replace("{}", ""), ["a.h:8: A::b()", "a.h:13: C::b() override"])

    def test_callbacks_of_c_are_functions(self):
        self.assert_judged("struct A {\n  int b; ///< One.\n  int (*c)(void* self);\n};\n", ["a.h:6: A::c)(void *self)"])

    def test_options_in_libtorch_s_style_are_functions(self):
        self.assert_judged("struct A {\n  /// One.\n  TORCH_ARG(int, b) = 0;\n  TORCH_ARG(bool, c) = false;\n};\n",
                           ["a.h:7: A::c()"])

    def test_a_class_says_which_threads_may_use_it(self):
        silent = ["a.h:5: class A does not say which threads may use it"]
        text = "/// {}\nclass A {\n public:\n  /// One.\n  int b();\n};\n"
        self.assert_judged(text.replace("{}", "Not thread-safe."))
        self.assert_judged(text.replace("{}", "Two."), silent=silent)
        self.assert_judged(text.replace("{}", "Two."), head="/// For one thread.\n\n")
        self.assert_judged(text.replace("{}", "Two.").replace("class A {\n public:", "struct A {"))
        self.assert_judged(text.replace("{}", "Two.").replace("class A", "class A : public BadError"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
