#!/usr/bin/env python3
"""Feeds files with faults to the commands of tsq, and says where one does not end as docs/command_line.md promises.

    mutate_files.py --tsq build/release/bin/tsq --minutes 5
    mutate_files.py --tsq build/release/bin/tsq --case 1:42      # repeats one case

Each case is drawn from the seed and its number alone. What is found stays in --found, a folder for each group."""

import argparse
import collections
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Dict, List, Optional

import archive_faults
import byte_faults
import commands
import json_faults
import judge
import numpy_faults
import pickle_faults
import seed_files

ROOT = Path(__file__).resolve().parents[2]
JSON_KINDS = {"table", "mapping", "equalization", "prepare_custom", "convert_custom", "bench"}
# Models have more code, records and commands than the other kinds.
WEIGHTS = {"float": 6, "prepared": 3, "calibrated": 2, "reference": 3, "int8": 5, "fused": 6, "pt_data": 4, "npy": 1, "npz": 2}


def faulty(random: Random, kind: str, content: bytes):
    """The name of a fault, and the content with it."""
    if kind in JSON_KINDS:
        if random.random() < 0.15:
            name, changed = byte_faults.any_fault(random, content)
            return f"bytes.{name}", changed
        name, text = json_faults.any_fault(random, content.decode())
        return f"json.{name}", text.encode("utf-8", "surrogatepass")
    if kind == "npy":
        return numpy_faults.array_fault(random, content)
    if kind == "npz":
        return numpy_faults.archive_fault(random, content)
    if kind == "pt_data":
        return data_fault(random, content)
    return archive_faults.any_fault(random, content, program=kind == "fused")


def data_fault(random: Random, content: bytes):
    if random.random() < 0.5:
        return archive_faults.any_fault(random, content)
    archive = archive_faults.archives.read(content)
    entry = archive.find("data.pkl")[0]
    name, entry.data = pickle_faults.any_fault(random, entry.data)
    return f"pickle.{name}", archive_faults.archives.write(archive)


class Case:
    """One file with a fault, and one command that reads it."""

    def __init__(self, name: str, kinds: Dict[str, List[Path]], only: Optional[str]):
        random = Random(name)
        self.name = name
        chosen = [only] if only else list(kinds)
        self.kind = random.choices(chosen, [WEIGHTS.get(kind, 1) for kind in chosen])[0]
        self.seed = random.choice(kinds[self.kind])
        self.command = random.choice(commands.COMMANDS[self.kind])
        try:
            self.fault, self.content = faulty(random, self.kind, self.seed.read_bytes())
        except (ValueError, IndexError, KeyError, AttributeError, RecursionError, UnicodeError) as error:
            # A second fault does not always find what it wants after the first.
            self.fault, self.content = f"none ({type(error).__name__})", self.seed.read_bytes()

    def arguments(self, tsq: str) -> List[str]:
        return [tsq, *commands.filled(self.command, self.seed.name, self.seed.name, str(self.seed.parent))]

    def run(self, tsq: str, folder: Path, limit_seconds: float) -> judge.Run:
        (folder / self.seed.name).write_bytes(self.content)
        ended = judge.run(self.arguments(tsq), folder, limit_seconds)
        return judge.judge(ended, folder, {self.seed.name: self.content})


def frames(arguments: List[str], folder: Path) -> List[str]:
    """The functions in which a command died, the innermost first, as far as their names tell."""
    tracer = ["gdb", "-batch", "-ex", "set confirm off", "-ex", "set print frame-arguments none", "-ex", "handle SIGPIPE nostop", "-ex", "run",
              "-ex", "bt 60", "--args", *arguments]
    try:
        told = subprocess.run(tracer, cwd=folder, capture_output=True, text=True, timeout=120, errors="replace").stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    names = re.findall(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(.+?)\s*(?:\(\)|\(this=|\(\.\.\.\)| from | at |$)", told, re.MULTILINE)
    noise = re.compile(r"pthread_kill|raise|abort|libc|gnu_cxx::|std::terminate|__cxa|Unwind|gsignal|^\?\?|memcpy|memmove|memset|malloc|_int_|operator new")
    return [re.sub(r"\(.*", "", re.sub(r"<.*>", "<>", name)) for name in names if not noise.search(name)]


def group_of(case: Case, ended: judge.Run, tsq: str, folder: Path) -> str:
    """Cases of one name have one cause, as far as it shows from outside."""
    symptom = ended.faults[0]
    if symptom.startswith("signal") and shutil.which("gdb"):
        found = frames(case.arguments(tsq), folder)
        depth = [name for name, count in collections.Counter(found).items() if count > 8]
        if depth:
            return f"{symptom} recursion {depth[0]}"
        return " ".join([symptom, *found[:2]]) if found else symptom
    if symptom.startswith("too much"):
        return f"{symptom} {case.command[0]} {case.fault}"
    lines = [line for line in ended.stderr.splitlines() if line.startswith("tsq: error")] or ended.stderr.splitlines()[-1:]
    sentence = re.sub(r"'[^']*'", "'…'", lines[0] if lines else "")
    return f"{symptom} {re.sub(r'[0-9]+', 'N', sentence)[:110]}"


def folder_name(group: str) -> str:
    return re.sub(r"[^\w.-]+", "_", group)[:80].strip("_") + "-" + hashlib.sha256(group.encode()).hexdigest()[:4]


def keep(case: Case, ended: judge.Run, group: str, tsq: str, found: Path) -> None:
    """The file, and the command that repeats what happened; of a group the smallest files are kept."""
    folder = found / folder_name(group)
    folder.mkdir(parents=True, exist_ok=True)
    kept = sorted(folder.glob("*.case"), key=lambda path: path.stat().st_size)
    if len(kept) >= 4 and kept[-1].stat().st_size <= len(case.content):
        return
    name = case.name.replace(":", "-")
    (folder / f"{name}.case").write_bytes(case.content)
    arguments = [f"{name}.case" if argument == case.seed.name else argument for argument in case.arguments(tsq)]
    (folder / f"{name}.txt").write_text("\n".join(
        [f"group: {group}", f"kind: {case.kind}, of {case.seed.name}", f"fault: {case.fault}", f"faults: {'; '.join(ended.faults)}",
         f"repeat: {shlex.join(arguments)}", f"status: {ended.status}, {ended.seconds:.1f} s", "standard error:", ended.stderr[-3000:]]))
    if len(kept) >= 4:
        for path in (kept[-1], kept[-1].with_suffix(".txt")):
            path.unlink(missing_ok=True)


class Table:
    """Runs by kind and command."""

    def __init__(self):
        self.counts: Dict[tuple, collections.Counter] = collections.defaultdict(collections.Counter)
        self.groups = collections.Counter()

    def add(self, case: Case, ended: judge.Run) -> None:
        outcome = "faults" if ended.faults else "done" if ended.status == 0 else "refused"
        self.counts[(case.kind, case.command[0])][outcome] += 1

    def print(self) -> None:
        print(f"{'kind':<16}{'command':<16}{'done':>8}{'refused':>9}{'faults':>8}")
        for (kind, command), counted in sorted(self.counts.items()):
            print(f"{kind:<16}{command:<16}{counted['done']:>8}{counted['refused']:>9}{counted['faults']:>8}")
        total = sum(self.counts.values(), collections.Counter())
        print(f"{'all':<32}{total['done']:>8}{total['refused']:>9}{total['faults']:>8}")
        for group, count in self.groups.most_common():
            print(f"{count:6}  {group}")


def run_case(case: Case, options, table: Table) -> judge.Run:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        ended = case.run(options.tsq, folder, options.seconds)
        table.add(case, ended)
        if ended.faults:
            (folder / case.seed.name).write_bytes(case.content)
            group = group_of(case, ended, options.tsq, folder)
            table.groups[group] += 1
            keep(case, ended, group, options.tsq, options.found)
            if table.groups[group] == 1:
                print(f"found  {case.name}  {case.kind}  {case.command[0]}  {case.fault}: {group}", flush=True)
    return ended


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", default=str(ROOT / "build/release/bin/tsq"))
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--cases", type=int, default=10**9, help="end after so many, too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", help="run this one alone: SEED:NUMBER")
    parser.add_argument("--kind", choices=sorted(commands.COMMANDS))
    parser.add_argument("--seconds", type=float, default=judge.LONGEST_SECONDS, help="how long a command may take")
    parser.add_argument("--seeds", type=Path, default=ROOT / "build/fuzz_files/seeds")
    parser.add_argument("--found", type=Path, default=ROOT / "build/fuzz_files/found")
    options = parser.parse_args()
    options.tsq, options.seeds = str(Path(options.tsq).resolve()), options.seeds.resolve()
    return options


def main() -> int:
    options = read_options()
    kinds = seed_files.write_all(options.tsq, options.seeds)
    contents = {path: path.read_bytes() for paths in kinds.values() for path in paths}
    table = Table()
    if options.case:
        case = Case(options.case, kinds, options.kind)
        ended = run_case(case, options, table)
        print(json.dumps({"fault": case.fault, "arguments": case.arguments(options.tsq), "faults": ended.faults, "status": ended.status}, indent=1))
        print(ended.stderr)
        return 1 if ended.faults else 0
    end = time.monotonic() + 60 * options.minutes
    number = options.first
    while time.monotonic() < end and number < options.first + options.cases:
        run_case(Case(f"{options.seed}:{number}", kinds, options.kind), options, table)
        number += 1
    table.print()
    if any(path.read_bytes() != content for path, content in contents.items()):
        print("a command has changed a file that it only read")
        return 1
    if table.groups:
        print(f"{sum(table.groups.values())} cases in {len(table.groups)} groups: see {options.found}")
    return 1 if table.groups else 0


if __name__ == "__main__":
    sys.exit(main())
