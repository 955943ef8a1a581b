"""An EmbeddingBag classifier, trained here on real text, keeps its answers when its tables have 8, 4 and 2 bits.

The text is the documentation that Python carries in its own library: the first paragraphs of functions and classes. The label is the
package that they come from. A third of it is kept for the evaluation. Scripted, traced and frozen files are quantized by the command
line, without calibration data, and loaded by stock torch.jit.load.

  text_classifier.py --tsq build/release/bin/tsq
"""

import argparse
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

PACKAGES = {
    "mail": ("email.message", "email.header", "email.utils", "email.policy", "email.headerregistry", "mailbox", "smtplib", "imaplib", "poplib"),
    "numbers": ("statistics", "decimal", "fractions", "random", "math", "cmath", "numbers"),
    "processes": ("asyncio.events", "asyncio.base_events", "asyncio.locks", "asyncio.queues", "asyncio.tasks", "threading", "multiprocessing.pool", "concurrent.futures._base", "subprocess"),
    "files": ("shutil", "pathlib", "tarfile", "zipfile", "os.path", "tempfile", "os", "glob", "gzip"),
    "testing": ("unittest.case", "unittest.mock", "unittest.loader", "unittest.suite", "doctest", "pdb", "bdb"),
    "languages": ("ast", "inspect", "tokenize", "argparse", "optparse", "string", "textwrap", "difflib", "xml.dom.minidom", "xml.etree.ElementTree", "html.parser", "json"),
}
WORDS, COLUMNS, LENGTH = 3000, 64, 24
# The largest loss of accuracy on the evaluation texts, as a share of them, and the least agreement with float.
LIMITS = {8: (0.01, 0.98), 4: (0.03, 0.92), 2: (0.12, 0.75)}


def documentation(module_name: str) -> list:
    module = importlib.import_module(module_name)
    found = []
    for _, thing in inspect.getmembers(module):
        if getattr(thing, "__module__", None) not in (module_name, module.__name__):
            continue
        members = [thing] + ([member for _, member in inspect.getmembers(thing)] if inspect.isclass(thing) else [])
        found += [pydoc.getdoc(member) for member in members if callable(member)]
    return found


def tokens(text: str) -> list:
    return re.findall(r"[a-z]{2,}", text.lower())


def texts() -> list:
    """[(tokens, label)] in an order that is the same in every run, each text once."""
    seen, found = set(), []
    for label, modules in enumerate(PACKAGES.values()):
        for name in modules:
            for text in documentation(name):
                words = tuple(tokens(text))[:LENGTH]
                if len(words) >= 5 and words not in seen:
                    seen.add(words)
                    found.append((words, label))
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(0)).tolist()
    return [found[index] for index in order]


class Classifier(nn.Module):
    """A mean of the words' rows, padding left out."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, COLUMNS, mode="mean", padding_idx=0)
        self.hidden = nn.Linear(COLUMNS, COLUMNS)
        self.relu = nn.ReLU()
        self.out = nn.Linear(COLUMNS, len(PACKAGES))

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.relu(self.hidden(self.bag(ids))))


class LastOffset(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, COLUMNS, include_last_offset=True)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.bag(ids, offsets)


def encoded(samples: list, vocabulary: dict) -> tuple:
    rows = [[vocabulary.get(word, 0) for word in words] + [0] * (LENGTH - len(words)) for words, _ in samples]
    return torch.tensor(rows), torch.tensor([label for _, label in samples])


def trained(ids: Tensor, labels: Tensor) -> nn.Module:
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(12):
        for batch in torch.randperm(len(ids)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(ids[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval()


def files_of(model: nn.Module, example: Tensor, folder: Path) -> list:
    scripted = torch.jit.script(model)
    made = {"scripted": scripted, "traced": torch.jit.trace(model, example), "frozen": torch.jit.freeze(scripted)}
    for name, module in made.items():
        module.save(str(folder / f"{name}.pt"))
    return [folder / f"{name}.pt" for name in made]


def quantized(tsq: str, file: Path, bits: int) -> Path:
    output = file.with_suffix(f".{bits}.pt")
    subprocess.run([tsq, "quantize", file, "--mode", "weight_only", "--bits", str(bits), "--output", output, "--quiet", "--no-check"], check=True)
    return output


def frozen_share(tsq: str, folder: Path) -> float:
    """What is left of a frozen table when the last offset is given: freezing keeps F.embedding_bag's checks, after which the
    operator's arguments stand."""
    file = folder / "last_offset.pt"
    torch.jit.freeze(torch.jit.script(LastOffset().eval())).save(str(file))
    return quantized(tsq, file, 8).stat().st_size / file.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    samples = texts()
    kept = len(samples) // 3
    counts = {}
    for words, _ in samples[kept:]:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    vocabulary = {word: index for index, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - 1], start=1)}
    ids, labels = encoded(samples[:kept], vocabulary)
    model = trained(*encoded(samples[kept:], vocabulary))
    failures = []
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        if frozen_share(options.tsq, Path(name)) > 0.5:
            failures.append("a frozen EmbeddingBag with the last offset")
        expected = model(ids).argmax(1)
        accuracy = float((expected == labels).float().mean())
        print(f"{len(samples)} texts, {len(PACKAGES)} labels; float: accuracy {accuracy:.3f}")
        if accuracy < 0.6:
            failures.append("the classifier has learnt nothing")
        for file in files_of(model, ids[:4], Path(name)):
            for bits, (largest_loss, least_agreement) in LIMITS.items():
                output = quantized(options.tsq, file, bits)
                answer = torch.jit.load(str(output))(ids).argmax(1)
                share = output.stat().st_size / file.stat().st_size
                now, agreement = float((answer == labels).float().mean()), float((answer == expected).float().mean())
                print(f"{file.stem:9} {bits} bits: accuracy {now:.3f}, the same answer as float {agreement:.3f}, size {share:.2f}")
                # Rows have 8 or 4 bytes beside their codes.
                if accuracy - now > largest_loss or agreement < least_agreement or share > bits / 32 + 0.08:
                    failures.append(f"{file.stem} with {bits} bits")
    print("failed: " + ", ".join(failures) if failures else "all as good as they should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
