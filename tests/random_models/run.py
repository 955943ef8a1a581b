"""Quantizes random models, scripted and traced, as the command does, and runs the results on data that it has not seen.

Each result must be written, load and run in stock TorchScript, have the structure, dtypes and shapes of what its float file returns, be finite where
that is, and keep 20 dB on half of the samples or have a warning of its accuracy; where nothing is quantized, it must be what float returns, bit for bit. The results of the scripted and of the traced file of a model must be
alike where both files compute the same.

  run.py --serve build/release/bin/serve_commands --count 300 --seed 1
  run.py --serve … --first 17 --count 1 --show           one model: its text, and what became of it
  run.py --serve … --first 17 --count 1 --shrink         the smallest model that still fails
  run.py --serve … --without fork,interface              without these blocks
  run.py --serve … --count 3000 --engine all --speed     as long as it takes
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import FrozenSet, List, Optional

import torch

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "conformance"))

from generate import ALL_BLOCKS, Model, random_model, smaller, write_model
from jobs import FAILED, JobServer, forked
from files import Files, Unfit, decibels, leaves, run, structure
from program import Spec, seeded

ENGINES = ("x86", "fbgemm", "onednn", "qnnpack")
ENOUGH = 20  # dB
# Scripted and traced files round in places that differ by little: one bit is between them at most, where 30 dB are not kept anyway.
BIT, PLENTY = 6.02, 30
MOST_SHRINKING = 150
ATTEMPTS = 12


@dataclasses.dataclass
class Setting:
    """How a model is quantized."""

    engine: str
    mode: str
    recipe: str
    target: str = "stock"

    def __str__(self) -> str:
        return f"{self.engine} {self.mode} {self.recipe}" + (" fused" if self.target == "fused" else "")


class Fault(Exception):
    """`kind` stays the same while a model is shrunk."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def settings_of(seed: str, engines: str, target: str) -> List[Setting]:
    r = seeded(seed + "/setting")
    drawn = r.choice(ENGINES)
    mode = r.choices(["static", "dynamic", "weight_only"], [80, 12, 8])[0]
    recipe = "fx" if r.random() < 0.15 and mode == "static" else "best"
    chosen = {"drawn": (drawn,), "all": ENGINES}.get(engines) or tuple(engines.split(","))
    return [Setting(engine, mode, recipe, target) for engine in chosen]


class Trial:
    """One model file, quantized one way."""

    def __init__(self, files: Files, form: str, setting: Setting, server: JobServer, speed: bool) -> None:
        self.files, self.form, self.setting, self.server, self.speed = files, form, setting, server, speed
        self.out = files.folder / f"{form}.{setting.engine}.int8.pt"
        self.expected = files.results_of(form)
        self.as_written = {index for index, result in self.expected.items() if files.is_as_written(index, result)}
        self.summary: dict = {}
        self.db = math.inf
        self.mended = ""
        self._quantize()
        self._judge()

    def _command(self, *more: str) -> dict:
        s = self.setting
        arguments = ["quantize", str(self.files.forms[self.form]), "--backend", s.engine, "--mode", s.mode, "--recipe", s.recipe, "--target", s.target]
        arguments += ["--calib" if s.mode == "static" else "--data", str(self.files.folder / f"{self.form}.calibration.pt")]
        arguments += ["--output", str(self.out), "--json", "--quiet", *more]
        answer = self.server.ask(arguments)
        if answer["exit"] != 0:
            raise Fault("refused" if answer["exit"] == 1 else "ended", f"exit {answer['exit']}: {answer['error'].strip()[-600:]}")
        return json.loads(answer["out"])

    def _quantize(self) -> None:
        """Small files grow in int8, which the command would answer by leaving them float: they are asked for as they are. What cannot be
        made or run is then left float by the command's own choice."""
        try:
            self.summary = self._command(*([] if self.speed else ["--no-check", "--force"]))
            fault = self.summary["trial"]["fault"]
            self.mended = f"{fault['kind']}: {fault['text']}" if fault else ""
        except Fault as fault:
            if self.speed or fault.kind != "refused":
                raise
            self.mended = str(fault)
        if self.mended:
            self.summary = self._command("--no-check")

    def _judge(self) -> None:
        try:
            module = torch.jit.load(str(self.out))
        except Exception as error:
            raise Fault("load", last_line(error))
        missing = methods_of(torch.jit.load(str(self.files.forms[self.form]))) - methods_of(module)
        if missing:
            raise Fault("methods", f"{sorted(missing)} of the float file")
        tests = list(self.expected)
        got = []
        for index in tests[:1] + tests:
            try:
                got.append(run(module, self.files.tests[index]))
            except Exception as error:
                raise Fault("run", f"sample {index} {[list(x.shape) for x in self.files.tests[index]]}: {last_line(error)}")
        expected = list(self.expected.values())
        for index, want, have in zip(tests, expected, got[1:]):
            compare(index, want, have)
        self.db = decibels(expected, got[1:])
        if self.setting.recipe == "best" and self.summary["operators"]["quantized"] == 0:
            same(tests, expected, got[1:])
        # The command promises as much for 19 of 20 further samples: half of the few here do by far.
        median = statistics.median(decibels([want], [have]) for want, have in zip(expected, got[1:]))
        if median < ENOUGH and not self.warns() and not self.files.amplifies:
            raise Fault("accuracy", f"{self.db:.1f} dB without a warning; the command saw {self.summary['trial']['sqnr_db']}")

    def warns(self) -> bool:
        return any("SQNR" in warning for warning in self.summary["warnings"])

    def is_float(self) -> bool:
        return self.summary["trial"]["is_float_model"]


def methods_of(module: torch.jit.ScriptModule) -> set:
    return set(module._c._method_names())


def last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]


def compare(index: int, want, have) -> None:
    if structure(want) != structure(have):
        raise Fault("structure", f"sample {index}: {structure(have)}, float has {structure(want)}")
    for a, b in zip(leaves(want), leaves(have)):
        if isinstance(a, torch.Tensor) and a.is_floating_point() and bool((torch.isfinite(a) & ~torch.isfinite(b)).any()):
            raise Fault("finite", f"sample {index} is not finite where float is")


def same(tests, expected, got) -> None:
    """What nothing computes in int8 is computed as in float."""
    for index, want, have in zip(tests, expected, got):
        for a, b in zip(leaves(want), leaves(have)):
            if isinstance(a, torch.Tensor) and not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)):
                raise Fault("rounded", f"sample {index} differs from float, and nothing is quantized")


def alike(trials: List[Trial]) -> None:
    """Of the scripted and the traced file, on what both compute. In recipe fx a row is for one spelling, as FX has it; traces do not tell. A
    loop that nobody can unroll has one range for all of its turns, a trace one for each."""
    if len(trials) < 2 or trials[0].setting.recipe == "fx" or trials[0].files.amplifies or trials[0].files.model.precision != "float":
        return
    if "while " in trials[0].files.model.text:
        return
    if any(each.as_written != set(trials[0].expected) for each in trials):
        return
    if any(each.db == float("inf") for each in trials):  # times decided that one of them is all float
        return
    low, high = sorted(min(each.db, 200.0) for each in trials)
    if low < PLENTY and high - low > BIT and not any(each.mended for each in trials):
        raise Fault("forms", ", ".join(f"{each.form} {each.db:.1f} dB" for each in trials))


def check_model(model: Model, seed: str, setting: Setting, server: JobServer, speed: bool, folder: Path) -> List[Trial]:
    torch.backends.quantized.engine = setting.engine
    torch.set_num_threads(1)
    files = Files(model, folder, seed)
    trials = []
    for form in files.forms:
        try:
            trials.append(Trial(files, form, setting, server, speed))
        except Fault as fault:
            fault.args = (f"{form} {fault}",)
            raise
    alike(trials)
    return trials


def without_of(options) -> FrozenSet[str]:
    return frozenset(filter(None, options.without.split(",")))


def attempts(options, index: int):
    return (f"{options.seed}/{index}/{attempt}" for attempt in range(ATTEMPTS))


def facts_of(trials: List[Trial]) -> dict:
    return {
        "db": [round(min(each.db, 200.0), 1) for each in trials],
        "warned": any(each.warns() for each in trials),
        "float": sum(each.is_float() for each in trials),
        "mended": [each.mended for each in trials if each.mended],
        "slower": [warning for each in trials for warning in each.summary["warnings"] if "slower" in warning],
        "amplifies": trials[0].files.amplifies,
    }


def check(job, server: JobServer, options):
    """("", facts) or (FAILED, {kind, text, seed})."""
    index, unfit = job, []
    for seed in attempts(options, index):
        model = random_model(seed, without_of(options))
        facts: dict = {"seed": seed, "db": [], "runs": 0, "unfit": unfit}
        for setting in settings_of(f"{options.seed}/{index}", options.engine, options.target):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    trials = check_model(model, seed, setting, server, options.speed, Path(folder))
                except Unfit as error:
                    unfit.append(f"{seed}: {error}")
                    break
                except Fault as fault:
                    return FAILED, {"kind": fault.kind, "text": f"{setting}: {fault}", "seed": seed, "tree": str(model.spec), "unfit": unfit}
                facts["runs"] += len(trials)
                for key, value in facts_of(trials).items():
                    facts[key] = facts[key] + value if key in facts else value
        else:
            return "", facts
    return FAILED, {"kind": "generator", "text": "; ".join(unfit[-2:]), "seed": "", "tree": "", "unfit": unfit}


# ---- shrinking


def fault_of(spec: Spec, seed: str, setting: Setting, options) -> Optional[dict]:
    """What `check_model` finds with a tree, in a process of its own."""
    answers = []

    def work(_, server):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check_model(write_model(seed, spec, without_of(options)), seed, setting, server, options.speed, Path(folder))
            except Fault as fault:
                return FAILED, {"kind": fault.kind, "text": str(fault)}
            except Unfit as error:
                return "unfit", str(error)
        return "", ""

    server = JobServer(options.serve)
    forked([0], work, [server], lambda job, verdict, found, seconds: answers.append((verdict, found)))
    server.stop()
    verdict, found = answers[0]
    if verdict != FAILED:
        return None
    return found if isinstance(found, dict) else {"kind": "crash", "text": found}


def shrink(seed: str, options, index: int) -> None:
    spec = random_model(seed, without_of(options)).spec
    for setting in settings_of(f"{options.seed}/{index}", options.engine, options.target):
        found = fault_of(spec, seed, setting, options)
        if found is None:
            continue
        tried, go_on = 0, True
        while go_on and tried < MOST_SHRINKING:
            go_on = False
            for candidate in smaller(spec):
                tried += 1
                other = fault_of(candidate, seed, setting, options)
                if other is not None and other["kind"] == found["kind"]:
                    spec, found, go_on = candidate, other, True
                    break
                if tried >= MOST_SHRINKING:
                    break
        print(f"---- {setting}, seed {seed}: {found['text']}\n{spec}\n{write_model(seed, spec, without_of(options)).text}", flush=True)
        return


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", required=True, help="the built serve_commands")
    parser.add_argument("--count", type=int, default=300, help="models (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--engine", default="drawn", help="comma separated, 'all', or 'drawn': one a model, from the seed (default: %(default)s)")
    parser.add_argument("--target", choices=["stock", "fused"], default="stock", help="what runs the models (default: %(default)s)")
    parser.add_argument("--library", help="libtsq_runtime.so, for the target 'fused'")
    parser.add_argument("--without", default="", help="comma separated names of blocks (BLOCKS and LATER_BLOCKS of generate.py) that are not drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="models at once (default: %(default)s)")
    parser.add_argument("--shrink", action="store_true", help="print the smallest part of each failing model that still fails")
    parser.add_argument("--speed", action="store_true", help="measure, and list what is slower than float")
    parser.add_argument("--show", action="store_true", help="print the text of each model")
    parser.add_argument("--verbose", action="store_true", help="also print what passed, what did not become a model, and what the command mended")
    options = parser.parse_args()
    if options.library:
        torch.ops.load_library(options.library)
    unknown = without_of(options) - set(ALL_BLOCKS)
    if unknown:
        parser.error(f"no such block: {', '.join(sorted(unknown))}; there are {', '.join(ALL_BLOCKS)}")
    return options


class Tally:
    def __init__(self, options) -> None:
        self.options = options
        self.counts: collections.Counter = collections.Counter()
        self.kinds: collections.Counter = collections.Counter()
        self.failed: List[tuple] = []

    def report(self, index: int, verdict: str, found, seconds: float) -> None:
        if not isinstance(found, dict):
            found = {"kind": "crash", "text": found, "seed": f"{self.options.seed}/{index}/0", "tree": "", "unfit": []}
        self.counts["unfit"] += len(found["unfit"])
        if self.options.verbose:
            for text in found["unfit"]:
                print(f"unfit {text}", flush=True)
        if verdict == FAILED:
            self.kinds[found["kind"]] += 1
            self.failed.append((index, found["seed"]))
            print(f"FAIL {index} [{found['seed']}] {found['text']}" + (f"\n     {found['tree']}" if self.options.verbose else ""), flush=True)
            return
        self.counts["passed"] += 1
        self.counts["results"] += found["runs"]
        self.counts["low"] += sum(db < ENOUGH for db in found["db"])
        self.counts["low_by_nature"] += found["amplifies"] and any(db < ENOUGH for db in found["db"])
        self.counts["float"] += found["float"]
        self.counts["mended"] += bool(found["mended"])
        if self.options.verbose:
            print(f"pass {index} {found['db']}" + (" warned" if found["warned"] else "") + "".join(f"\n  mended {text}" for text in found["mended"]), flush=True)
        for text in found["slower"]:
            print(f"slow {index} {text}", flush=True)

    def print(self, seconds: float) -> None:
        counts = self.counts
        print(
            f"{counts['passed']} models passed with {counts['results']} results ({counts['low']} under {ENOUGH} dB that say so or amplify what disturbs them, "
            f"{counts['float']} all float, {counts['mended']} in which the command left float what cannot run); {counts['unfit']} drafts were no models; "
            f"{len(self.failed)} failed {dict(self.kinds) if self.kinds else ''} in {seconds:.0f} s"
        )


def main() -> int:
    options = parse_options()
    torch.set_num_threads(1)
    start, tally = time.monotonic(), Tally(options)
    indices = list(range(options.first, options.first + options.count))
    servers = [JobServer(options.serve) for _ in range(options.jobs)]
    forked(indices, lambda index, server: check(index, server, options), servers, tally.report)
    for server in servers:
        server.stop()
    if options.show:
        for index in indices:
            seed = next((seed for failed, seed in tally.failed if failed == index), f"{options.seed}/{index}/0")
            print(random_model(seed, without_of(options)).text)
    if options.shrink:
        for index, seed in tally.failed:
            shrink(seed or f"{options.seed}/{index}/0", options, index)
    tally.print(time.monotonic() - start)
    return 1 if tally.failed or not tally.counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
