#!/usr/bin/env python3
"""Writes docs/specification.md: what PyTorch's documents say, the test that holds tsq to it, and where tsq differs.

    scripts/specification_page.py            # writes the page
    scripts/specification_page.py --check    # fails where the page is not what the tests cite
    scripts/specification_page.py --documents FOLDER    # also fails where a citation is not in a document of that folder

The citations are TSQ_SAYS(document, sentence, difference) in tests/specification/*.cpp and @says(document, sentence, difference) in
tests/specification/statements.py, the difference only where there is one. White space and typographic quotation marks do not count.
"""

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "specification"
PAGE = ROOT / "docs" / "specification.md"

DOCUMENTS = {
    "README": "[torch/ao/quantization/backend_config/README.md](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/ao/quantization/backend_config/README.md)",
    "utils": "torch/ao/quantization/backend_config/utils.py",
    "BackendConfig": "The page of `BackendConfig`",
    "BackendPatternConfig": "The page of `BackendPatternConfig`",
    "DTypeConfig": "The page of `DTypeConfig`",
    "QConfigMapping": "The page of `QConfigMapping`",
    "re": "Python's documentation of `re`",
}
# What is not among the documents of the specification.
ELSEWHERE = ("utils", "re")


class Citation(NamedTuple):
    document: str
    sentence: str
    test: str
    file: str
    difference: str


CPP_TEST = re.compile(r"^TEST(?:_F)?\((\w+), (\w+)\)", re.MULTILINE)
CPP_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def macro_arguments(text: str, begin: int) -> list[str]:
    """The strings of a macro's arguments, each joined from its parts."""
    depth, arguments, position = 1, [""], begin
    while depth > 0:
        string = CPP_STRING.match(text, position)
        if string:
            arguments[-1] += string[1].replace('\\\\\\"', '"').replace('\\"', '"')
            position = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if text[position] == "," and depth == 1:
            arguments.append("")
        position += 1
    return arguments


def cited_by_cpp(file: Path) -> list[Citation]:
    text = file.read_text(encoding="utf-8")
    tests = [(match.start(), f"{match[1]}.{match[2]}") for match in CPP_TEST.finditer(text)]
    found = []
    for macro in re.finditer(r"TSQ_SAYS\(", text):
        document, sentence, *difference = macro_arguments(text, macro.end())
        test = next(name for start, name in reversed(tests) if start < macro.start())
        found.append(Citation(document, sentence, test, file.name, " ".join(difference)))
    return found


def cited_by_python(file: Path) -> list[Citation]:
    found = []
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "says":
                document, sentence, *difference = (argument.value for argument in decorator.args)
                found.append(Citation(document, sentence, function.name.replace("_", " "), file.name, " ".join(difference)))
    return found


def citations() -> list[Citation]:
    found = [each for file in sorted(TESTS.glob("*_test.cpp")) for each in cited_by_cpp(file)]
    return found + cited_by_python(TESTS / "statements.py")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def page(found: list[Citation]) -> str:
    lines = [
        "# The specification, sentence by sentence",
        "",
        "What PyTorch's documents say of backends' tables, dtypes and mappings, and the test that holds tsq to it. `scripts/specification_page.py`",
        "makes this page of the tests' citations; those of `statements.py` quantize each model with Python FX as well, and compare the bits.",
        "",
    ]
    for document, title in DOCUMENTS.items():
        of_document = [each for each in found if each.document == document]
        if not of_document:
            continue
        lines += [f"## {title}", "", "| it says | test | where tsq differs |", "|---|---|---|"]
        by_sentence: dict[str, list[Citation]] = {}
        for each in of_document:
            by_sentence.setdefault(each.sentence, []).append(each)
        for sentence, cited in by_sentence.items():
            tests = ", ".join(dict.fromkeys(f"{each.test} (`{each.file}`)" for each in cited))
            differences = " ".join(dict.fromkeys(each.difference for each in cited if each.difference))
            lines.append(f"| {cell(sentence)} | {tests} | {cell(differences) or '–'} |")
        lines.append("")
    return "\n".join(lines)


def plain(text: str) -> str:
    """A text as it is compared: what differs between a page and its source does not count."""
    for typographic, simple in (("’", "'"), ("“", '"'), ("”", '"'), ("…", "...")):
        text = text.replace(typographic, simple)
    return re.sub(r"[\s`]+", "", text)


def missing(found: list[Citation], folder: Path) -> list[Citation]:
    documents = "".join(plain(file.read_text(encoding="utf-8", errors="replace")) for file in sorted(folder.iterdir()) if file.is_file())
    # The README is there with a number in front of each line.
    documents += plain("".join(re.sub(r"^\d+", "", line) for file in sorted(folder.iterdir()) for line in file.open(encoding="utf-8", errors="replace")))

    def is_there(sentence: str) -> bool:
        return all(plain(part) in documents for part in sentence.replace("...", "…").split("…"))

    return [each for each in found if each.document not in ELSEWHERE and not is_there(each.sentence)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--documents", type=Path, metavar="FOLDER", help="the documents as text files")
    arguments = parser.parse_args()
    found = citations()
    faults = [f"{each.file}, {each.test}: cites a document '{each.document}'" for each in found if each.document not in DOCUMENTS]
    if arguments.documents:
        faults += [f"{each.file}, {each.test}: is not in the documents: {each.sentence}" for each in missing(found, arguments.documents)]
    text = page(found)
    if arguments.check and (not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text):
        faults.append(f"{PAGE.relative_to(ROOT)} is not what the tests cite: run scripts/specification_page.py")
    print("\n".join(faults) or f"{len(found)} citations")
    if not arguments.check and not faults:
        PAGE.write_text(text, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
