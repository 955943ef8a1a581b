"""The scripted, the traced and the frozen file of one network must give int8 models with equal outputs.

For each case: quantizes its scripted file, its traced file, and both frozen, and compares the outputs of the lowered models bit
for bit. What such files do not hold any more, and which may differ therefore, is in twin_differences.py.

  twins.py --jobs-by build/release/bin/quantize_cases --cache build/release/conformance
"""

import argparse
import collections
import copy
import json
import os
import re
import sys
import time
import warnings
from pathlib import Path

import torch

import oracle
from case import ENGINES, Case
from configuration_json import mapping_to_json
from jobs import FAILED, JobServer, forked
from made import quantize_job
from models import CASES
from twin_differences import reason_for

TWINS = ("traced", "frozen", "traced_frozen")
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

    def __init__(self, cache: Path, case: Case, engine: str, recipe: str) -> None:
        self.recipe = recipe
        self.paths = oracle.CasePaths(cache, case, engine)
        oracle.ensure_inputs(case, self.paths)
        self.paths = oracle.CasePaths(cache / f"twins_{recipe}", case, engine)
        self.paths.own.mkdir(parents=True, exist_ok=True)
        self.scripted = oracle.CasePaths(cache, case, engine).model
        self.calibration = oracle.CasePaths(cache, case, engine).calibration
        self.paths.qconfig.write_text(json.dumps(mapping_to_json(case.mapping(engine))))
        for name, configuration in oracle.configurations(case, engine).items():
            (self.paths.own / f"{name}.json").write_text(json.dumps(configuration))

    def job(self, case: Case, engine: str, model: Path) -> dict:
        job = quantize_job(case, self.paths, engine, self.paths.own / "out.pt", self.paths.own / "reference.pt")
        del job["reference"]
        return {**job, "model": str(model), "calibration": str(self.calibration), "recipe": self.recipe}


def quantized(server: JobServer, job: dict):
    """The lowered model, or the sentence of the refusal."""
    answer = server.ask(job)
    return torch.jit.load(job["output"]) if answer["exit"] == 0 else answer["error"]


def outputs_of(model, case: Case, engine: str):
    try:
        return oracle.outputs_of(model, oracle.evaluation_batches(case, engine))
    except Exception as error:
        return "raises: " + " ".join(str(error).split())[-300:]


def equal(a, b) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and a == b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_quantized:
        return a.q_scale() == b.q_scale() and a.q_zero_point() == b.q_zero_point() and torch.equal(a.int_repr(), b.int_repr())
    return torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(a.nan_to_num(), b.nan_to_num())


def difference(scripted: list, other) -> str:
    if isinstance(other, str):
        return other
    for batch, (want, have) in enumerate(zip(scripted, other)):
        if len(want) != len(have):
            return f"{len(have)} outputs, the scripted file gives {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            if not equal(a, b):
                return f"output {index} of batch {batch} differs from the scripted file's"
    return ""


def are_close(scripted: Path, twin: Path, case: Case, engine: str) -> bool:
    """Whether TorchScript itself computes the same with both float files."""
    outputs = [oracle.outputs_of(torch.jit.load(str(file)), oracle.float_batches(case, engine)) for file in (scripted, twin)]
    pairs = [(a, b) for one, other in zip(*outputs) for a, b in zip(one, other) if isinstance(a, torch.Tensor)]
    return all(a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)


def check(job, server: JobServer, options):
    """twin -> what differs ("" for nothing) and what excuses it; a twin that TorchScript itself cannot make is left out."""
    case, engine = job, options.engine
    oracle.settle_this_process(engine)
    files = Files(options.cache, case, engine, options.recipe)
    scripted = quantized(server, files.job(case, engine, files.scripted))
    if isinstance(scripted, str):
        return "refused", {}
    expected = outputs_of(scripted, case, engine)
    if isinstance(expected, str):
        return "refused", {}
    found = {}
    for twin in TWINS:
        try:
            module = make_twin(case, twin)
        except Exception:
            continue
        file = files.paths.own / f"{twin}.pt"
        module.save(str(file))
        made = quantized(server, files.job(case, engine, file))
        text = made if isinstance(made, str) else difference(expected, outputs_of(made, case, engine))
        # Nothing excuses a file that is refused or does not run.
        reason = ""
        if text.startswith("output "):
            reason = reason_for(case, engine, twin, options.recipe) or ("" if are_close(files.scripted, file, case, engine) else OTHER_FLOATS)
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
    parser.add_argument("--all", action="store_true", help="print the differences for which there is a reason, too")
    parser.add_argument("--show", action="store_true", help="print the graphs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start, counts, reasons = time.monotonic(), collections.Counter(), collections.Counter()
    cases = [c for c in CASES if re.fullmatch(options.case or ".*", c.name) and options.engine in c.engines and options.engine not in c.skip]

    def report(case: Case, verdict: str, found, seconds: float) -> None:
        if verdict == FAILED:
            counts["different"] += 1
            print(f"FAIL {case.name}: {found}", flush=True)
            return
        counts["refused"] += verdict == "refused"
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
        f"{counts['refused']} cases without an int8 model, in {time.monotonic() - start:.0f} s"
    )
    return 1 if counts["different"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
