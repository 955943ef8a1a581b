"""Quantizes every case with `tsq quantize` and compares the result with Python FX, bit for bit.

For each case and engine: FX's reference and lowered outputs, and the scale and zero point of every quantized operator,
against those of the files that tsq wrote, loaded by stock torch.jit.load in this process. FX's side is cached.

  run.py --tsq build/release/bin/tsq --cache build/release/conformance
  run.py --tsq … --engine x86 --case 'resnet|conv2d_bn.*' --show

With --target fused tsq's reference models are compared with the fused programs that are cut from them, as fused.py says:

  run.py --target fused --library build/release/lib/libtsq_runtime.so --jobs-by build/release/bin/quantize_cases --engine x86
"""

import argparse
import collections
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Optional

import torch

import fused
import oracle
from case import ENGINES, Case
from jobs import FAILED, JobServer, forked, is_drawn
from made import Made, run_stand_in, run_tsq
from models import CASES
from verdict import BETTER, EQUAL, REWRITTEN, decibel_text, judge

FX_ONLY = "fx"


def check(job, server: Optional[JobServer], options):
    case, engine = job
    oracle.settle_this_process(engine)
    paths = oracle.CasePaths(options.cache, case, engine)
    expectation = oracle.ensure_expectation(case, engine, options.cache)
    if options.oracle_only:
        errors = "; ".join(f"{stage}: {text}" for stage, text in expectation.plain.errors.items())
        if expectation.rewritten is not None and expectation.rewritten.errors:
            errors += f"; rewritten: {expectation.rewritten.errors}"
        return (BETTER, "FX fails: " + errors) if errors else (FX_ONLY, decibel_text(expectation, _as_made(expectation)))

    def make(calibration: Path, folder: Path) -> Made:
        folder.mkdir()
        return run_stand_in(case, engine, folder) if options.stand_in else run_tsq(options, server, case, paths, engine, calibration, folder)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def recalibrated() -> Made:
            torch.save(case.second_calibration_batches(), folder / "calibration.pt")
            return make(folder / "calibration.pt", folder / "again")

        made = make(paths.calibration, folder / "first")
        verdict, text = judge(case, engine, expectation, made, recalibrated)
    if options.show:
        fx = expectation.rewritten or expectation.plain
        text += "".join(f"\n---- FX {stage}\n{code}" for stage, code in fx.code.items()) + f"\n---- tsq lowered\n{made.graph}"
    return verdict, text


def _as_made(expectation: oracle.Expectation) -> Made:
    made = Made()
    made.lowered, made.reference = expectation.plain.lowered, expectation.plain.reference
    return made


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tsq", help="the command to test")
    parser.add_argument("--jobs-by", help="the built quantize_cases, which spares most cases the start of the command")
    parser.add_argument("--cache", type=Path, default=Path("conformance_cache"), help="folder for FX's results")
    parser.add_argument("--engine", default="all", help="comma separated, or 'all' (default: %(default)s)")
    parser.add_argument("--case", default="", help="regular expression that a case's whole name must match")
    parser.add_argument("--target", choices=["stock", "fused"], default="stock", help="what runs tsq's models (default: %(default)s)")
    parser.add_argument("--library", help="libtsq_runtime.so, for the target 'fused'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at once (default: %(default)s)")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="draw one job in N, the same in every run")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--show", action="store_true", help="print FX's graphs and tsq's graph of each case")
    parser.add_argument("--failures", action="store_true", help="print failed cases and the summary only")
    parser.add_argument("--oracle-only", action="store_true", help="run FX alone, and say where it fails")
    parser.add_argument("--stand-in", action="store_true", help="FX's traced models in tsq's place: checks this program")
    options = parser.parse_args()
    options.engines = ENGINES if options.engine == "all" else tuple(options.engine.split(","))
    unknown = [engine for engine in options.engines if engine not in ENGINES]
    if unknown:
        parser.error(f"unknown engine {unknown[0]!r}; the engines are {', '.join(ENGINES)}")
    if options.target == "fused":
        if not (options.library and options.jobs_by):
            parser.error("the target 'fused' needs --library and --jobs-by")
    elif not (options.list or options.oracle_only or options.stand_in):
        if not options.tsq or not os.access(options.tsq, os.X_OK):
            parser.error(f"--tsq must be the built command, got {options.tsq!r}")
    return options


def skip_reason(case: Case, engine: str) -> str:
    if engine in case.skip:
        return case.skip[engine]
    return "" if engine in case.engines else "not an engine of this case"


def main() -> int:
    options = parse_options()
    torch.set_num_threads(1)
    cases = [case for case in CASES if re.fullmatch(options.case or ".*", case.name)]
    if options.list:
        for case in cases:
            print(case.name, ",".join(case.engines), case.known_difference)
        print(f"{len(cases)} cases")
        return 0
    skipped = [(case, engine, skip_reason(case, engine)) for case in cases for engine in options.engines if skip_reason(case, engine)]
    jobs = [(case, engine) for engine in options.engines for case in cases if not skip_reason(case, engine)]
    jobs = [(case, engine) for case, engine in jobs if is_drawn(f"{engine} {case.name}", options.one_in)]
    counts: collections.Counter = collections.Counter()

    def report(job, verdict: str, text: str, seconds: float) -> None:
        counts[verdict] += 1
        if verdict == FAILED or not options.failures:
            case, engine = job
            print(f"{'FAIL' if verdict == FAILED else 'pass'} {engine:8} {case.name} ({seconds:.1f} s)" + (f": {'' if verdict in (FAILED, EQUAL, FX_ONLY) else verdict + ': '}{text}" if text or verdict == REWRITTEN else ""), flush=True)

    start = time.monotonic()
    # All of them are looked at: the digests of the sources are then those of this process, whatever is edited meanwhile.
    is_fused = options.target == "fused"
    if is_fused:
        torch.ops.load_library(options.library)
    cached = [is_fused or oracle.is_cached(case, engine, options.cache) for case, engine in jobs]
    if options.stand_in or not all(cached):
        oracle.import_fx_fully()
    servers = [JobServer(options.jobs_by) if options.jobs_by else None for _ in range(options.jobs)]
    forked(jobs, lambda job, server: (fused.check if is_fused else check)(job, server, options), servers, report)
    for server in filter(None, servers):
        server.stop()
    for case, engine, reason in skipped:
        print(f"skip {engine:8} {case.name}: {reason}")
    failed = counts.pop(FAILED, 0)
    detail = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{sum(counts.values())} passed ({detail}), {failed} failed, {len(skipped)} skipped in {time.monotonic() - start:.0f} s")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
