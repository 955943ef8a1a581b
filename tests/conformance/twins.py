"""The scripted, the traced and the frozen file of one network must give int8 models with equal outputs.

For each case: quantizes its scripted file, its traced file, and both frozen, and compares the outputs of the lowered models bit
for bit. What such files do not hold any more, and which may differ therefore, is in twin_differences.py; a twin that may differ
must still be near its own float file.

  twins.py --jobs-by build/release/bin/quantize_cases --cache build/release/conformance
"""

import argparse
import collections
import copy
import json
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

import oracle
from case import ENGINES, Case
from comparison import FLOOR, defect, first_difference, holds_reals, same_leaf, sqnr, weakness
from configuration_json import mapping_to_json
from jobs import FAILED, JobServer, forked, is_drawn
from made import quantize_job
from models import CASES
from twin_differences import reason_for
from verdict import REFUSED

# Decibels that an excused twin may have less than is asked of its case, or than the scripted file has where that is less: its
# configuration may be another, and it may round in more places.
MAY_LOSE = 10.0

TWINS = ("traced", "frozen", "traced_frozen")
# Their rows are of modules or of functions, of torch.nn or of the user's, which frozen files do not tell apart.
ONLY_TRACED = "random_tables.py"
OTHER_FLOATS = "TorchScript made another float model: tracing keeps one way, freezing loses some writes into tensors"


def make_twin(case: Case, twin: str) -> torch.jit.ScriptModule:
    model = case.build()
    if twin == "frozen":
        module = torch.jit.script(model)
    else:
        with torch.no_grad():
            module = torch.jit.trace(model, copy.deepcopy(case.calibration_batches()[0]), check_trace=False, strict=False)
    return torch.jit.freeze(module.eval(), optimize_numerics=False) if "frozen" in twin else module


class Files:
    """What tsq reads and writes for a case, apart from those of the conformance suite."""

    def __init__(self, cache: Path, folder: Path, case: Case, engine: str, recipe: str) -> None:
        """`folder` is for what is written."""
        self.recipe = recipe
        cached = oracle.CasePaths(cache, case, engine)
        oracle.ensure_inputs(case, cached)
        self.scripted, self.calibration = cached.model, cached.calibration
        self.paths = oracle.CasePaths(folder, case, engine)
        self.paths.own.mkdir(parents=True)
        self.paths.qconfig.write_text(json.dumps(mapping_to_json(case.mapping(engine))))
        for name, configuration in oracle.configurations(case, engine).items():
            (self.paths.own / f"{name}.json").write_text(json.dumps(configuration))

    def job(self, engine: str, model: Path) -> dict:
        job = quantize_job(self.paths, engine, self.calibration, self.paths.own / "out.pt", self.paths.own / "reference.pt")
        del job["reference"]
        # What a trace has lost is in this package's files, as it is for FX.
        return {**job, "model": str(model), "recipe": self.recipe, "python_source": True}


def quantized(server: JobServer, job: dict):
    """The lowered model, or the sentence of the refusal."""
    answer = server.ask(job)
    return torch.jit.load(job["output"]) if answer["exit"] == 0 else answer["error"]


def outputs_of(model, case: Case, engine: str):
    try:
        return oracle.outputs_of(model, oracle.evaluation_batches(case, engine))
    except Exception as error:
        return "raises: " + " ".join(str(error).split())[-300:]


def weak_twin(case: Case, engine: str, scripted: tuple, twin: tuple) -> str:
    """Why an excused twin is no int8 model of its own float file, or a much worse one than the scripted file's; empty when it is good.
    Both pairs: outputs of the float file, and of the int8 model. The second batch leaves the calibrated range: how much a model
    loses there depends on where its observers are."""
    for batch, rows in enumerate(zip(*scripted, *twin)):
        for index, (scripted_float, scripted_int8, twin_float, twin_int8) in enumerate(zip(*rows)):
            if same_leaf(scripted_int8, twin_int8):
                continue
            reached = sqnr(scripted_float, scripted_int8) if holds_reals(scripted_float) else FLOOR
            floor = min(case.floor(engine), reached) - MAY_LOSE
            weak = weakness(twin_float, twin_int8, floor) if batch == 0 else defect(twin_float, twin_int8)
            if weak:
                return f"output {index} of batch {batch} {weak} beside its float file"
    return ""


def are_close(scripted: list, twin: list) -> bool:
    """Whether TorchScript itself computes the same with both float files."""
    pairs = [(a, b) for one, other in zip(scripted, twin) for a, b in zip(one, other) if isinstance(a, torch.Tensor)]
    return all(a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)


def excuse(case: Case, engine: str, twin: str, recipe: str, scripted: tuple, outputs: tuple) -> tuple[str, str]:
    """(what is wrong in spite of an excuse, the excuse) of a twin that differs from the scripted file."""
    reason = reason_for(case, engine, twin, recipe) or ("" if are_close(scripted[0], outputs[0]) else OTHER_FLOATS)
    return (weak_twin(case, engine, scripted, outputs) if reason else "", reason)


def check(job, server: JobServer, options):
    """twin -> what differs ("" for nothing) and what excuses it; a twin that TorchScript itself cannot make is left out."""
    oracle.settle_this_process(options.engine)
    with tempfile.TemporaryDirectory() as folder:
        return check_files(job, server, options, Files(options.cache, Path(folder), job, options.engine, options.recipe))


def check_files(case: Case, server: JobServer, options, files: Files):
    engine = options.engine
    scripted = quantized(server, files.job(engine, files.scripted))
    if isinstance(scripted, str):
        return (REFUSED, {}) if case.refusal and case.refusal in scripted else (FAILED, f"scripted: {scripted}")
    expected = outputs_of(scripted, case, engine)
    if isinstance(expected, str):
        return FAILED, f"scripted: {expected}"
    found = {}
    for twin in TWINS[:1] if Path(case.source).name == ONLY_TRACED else TWINS:
        try:
            module = make_twin(case, twin)
        except Exception:
            continue
        file = files.paths.own / f"{twin}.pt"
        module.save(str(file))
        made = quantized(server, files.job(engine, file))
        outputs = made if isinstance(made, str) else outputs_of(made, case, engine)
        # Nothing excuses a file that is refused or does not run.
        text, reason = (outputs, "") if isinstance(outputs, str) else (first_difference(expected, outputs, "the scripted file"), "")
        if text.startswith("output "):
            floats = [oracle.outputs_of(torch.jit.load(str(path)), oracle.float_batches(case, engine)) for path in (files.scripted, file)]
            weak, reason = excuse(case, engine, twin, options.recipe, (floats[0], expected), (floats[1], outputs))
            text, reason = (f"{weak}, though it may differ: {reason}", "") if weak else (text, reason)
        found[twin] = text, reason
        if options.show:
            print(twin, torch.jit.load(str(file)).inlined_graph, made if isinstance(made, str) else made.inlined_graph, file=sys.stderr)
    return "checked", found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs-by", required=True, help="the built quantize_cases")
    parser.add_argument("--cache", type=Path, default=Path("conformance_cache"))
    parser.add_argument("--engine", default="x86", choices=ENGINES)
    parser.add_argument("--recipe", default="fx", choices=("fx", "best"))
    parser.add_argument("--case", default="", help="regular expression that a case's whole name must match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at once (default: %(default)s)")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="draw one case in N, the same in every run")
    parser.add_argument("--all", action="store_true", help="print the differences for which there is a reason, too")
    parser.add_argument("--show", action="store_true", help="print the graphs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start, counts, reasons = time.monotonic(), collections.Counter(), collections.Counter()
    cases = [c for c in CASES if re.fullmatch(options.case or ".*", c.name) and options.engine in c.engines and options.engine not in c.skip and is_drawn(c.name, options.one_in)]
    # In recipe best a row holds for every spelling of an operator, but not a module's for a function that scripting calls.
    cases = [case for case in cases if options.recipe == "fx" or Path(case.source).name != ONLY_TRACED]

    def report(case: Case, verdict: str, found, seconds: float) -> None:
        if verdict == FAILED:
            counts["different"] += 1
            print(f"FAIL {case.name}: {found}", flush=True)
            return
        counts[REFUSED] += verdict == REFUSED
        for twin, (text, reason) in found.items():
            counts["equal" if not text else "excused" if reason else "different"] += 1
            if text and reason:
                reasons[reason] += 1
            if text and (options.all or not reason):
                print(f"{'may ' if reason else 'FAIL'} {twin:13} {case.name}: {text}{' (' + reason + ')' if reason else ''}", flush=True)

    servers = [JobServer(options.jobs_by) for _ in range(options.jobs)]
    forked(cases, lambda case, server: check(case, server, options), servers, report)
    for server in servers:
        server.stop()
    for reason, count in reasons.most_common():
        print(f"{count:4} differ: {reason}")
    print(
        f"{counts['equal']} twins equal, {counts['excused']} differ for a reason, {counts['different']} failed, "
        f"{counts[REFUSED]} cases refused as expected, in {time.monotonic() - start:.0f} s"
    )
    return 1 if counts["different"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
