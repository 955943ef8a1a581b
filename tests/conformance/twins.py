"""The scripted, the traced and the frozen file of one network must give int8 models with equal outputs.

For each case: quantizes its scripted file, its traced file, and both frozen, and compares the outputs of the lowered models bit
for bit.

  twins.py --tsq build/release/bin/tsq --jobs-by build/release/bin/quantize_cases --cache build/release/conformance
"""

import argparse
import collections
import copy
import sys
import time
import warnings
from pathlib import Path

import torch

import made
import oracle
from case import ENGINES, Case
from models import CASES

TWINS = ("traced", "frozen", "traced_frozen")


def write_twin(case: Case, twin: str, path: Path) -> None:
    model = case.build()
    if twin == "frozen":
        module = torch.jit.script(model)
    else:
        with torch.no_grad():
            module = torch.jit.trace(model, copy.deepcopy(case.calibration_batches()[0]), check_trace=False, strict=False)
    if "frozen" in twin:
        module = torch.jit.freeze(module.eval(), optimize_numerics=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    module.save(str(path))


def lowered_outputs(server: made.JobServer, case: Case, paths: oracle.CasePaths, engine: str, model: Path):
    """Outputs of the lowered model, or the sentence of the refusal."""
    out = paths.own / "twin.pt"
    job = made.quantize_job(case, paths, engine, out, paths.own / "twin_reference.pt")
    answer = server.ask({**job, "model": str(model)})
    if answer["exit"] != 0:
        return answer["error"]
    try:
        lowered = torch.jit.load(str(out))
        return lowered, oracle.outputs_of(lowered, case.evaluation_batches())
    except Exception as error:
        return " ".join(str(error).split())[-300:]


def equal(a, b) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and a == b


def difference(scripted, other) -> str:
    for batch, (want, have) in enumerate(zip(scripted, other)):
        if len(want) != len(have):
            return f"{len(have)} outputs, the scripted file gives {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            if not equal(a, b):
                return f"output {index} of batch {batch} differs from the scripted file's"
    return ""


def check(server: made.JobServer, case: Case, engine: str, cache: Path, show: bool) -> dict:
    """twin -> "" or what differs; a twin that TorchScript itself cannot make is left out."""
    oracle.ensure_expectation(case, engine, cache)
    paths = oracle.CasePaths(cache, case, engine)
    scripted = lowered_outputs(server, case, paths, engine, paths.model)
    if isinstance(scripted, str):
        return {}
    found = {}
    for twin in TWINS:
        file = paths.shared / f"{twin}.pt"
        try:
            write_twin(case, twin, file)
        except Exception:
            continue
        result = lowered_outputs(server, case, paths, engine, file)
        found[twin] = result if isinstance(result, str) else difference(scripted[1], result[1])
        if show:
            print(twin, torch.jit.load(str(file)).inlined_graph, result if isinstance(result, str) else result[0].inlined_graph)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs-by", required=True, help="the built quantize_cases")
    parser.add_argument("--cache", type=Path, default=Path("conformance_cache"))
    parser.add_argument("--engine", default="x86", choices=ENGINES)
    parser.add_argument("--case", default="", help="regular expression that a case's whole name must match")
    parser.add_argument("--show", action="store_true", help="print the graphs")
    options = parser.parse_args()
    import re

    warnings.simplefilter("ignore")
    oracle.settle_this_process(options.engine)
    start, counts = time.monotonic(), collections.Counter()
    server = made.JobServer(options.jobs_by)
    for case in CASES:
        if not re.fullmatch(options.case or ".*", case.name) or options.engine not in case.engines or options.engine in case.skip:
            continue
        for twin, text in check(server, case, options.engine, options.cache, options.show).items():
            counts["equal" if not text else "different"] += 1
            if text:
                print(f"FAIL {twin:13} {case.name}: {text}", flush=True)
    server.stop()
    print(f"{counts['equal']} twins equal, {counts['different']} different in {time.monotonic() - start:.0f} s")
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
