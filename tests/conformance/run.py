"""Quantizes every case with `tsq quantize` and compares the result with Python FX, bit for bit.

For each case and engine: FX's reference and lowered outputs, and the scale and zero point of every quantized operator,
against those of the files that tsq wrote, loaded by stock torch.jit.load in this process. FX's side is cached.

  run.py --tsq build/release/bin/tsq --cache build/release/conformance
  run.py --tsq … --engine x86 --case 'resnet|conv2d_bn.*' --show
"""

import argparse
import collections
import os
import re
import sys
import time
from pathlib import Path
from typing import Optional

import torch

import oracle
from case import ENGINES, Case
from jobs import FAILED, JobServer, forked
from made import Made, run_stand_in, run_tsq
from models import CASES

EQUAL, REWRITTEN, BETTER, REFUSED, FX_ONLY = "equal", "equal to FX of the rewritten model", "better than FX", "refused", "fx"


# ---- comparison


def same_leaf(a, b) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and a == b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_quantized:
        return a.qscheme() == b.qscheme() and a.q_scale() == b.q_scale() and a.q_zero_point() == b.q_zero_point() and torch.equal(a.int_repr(), b.int_repr())
    if a.is_floating_point():
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    return torch.equal(a, b)


def as_float(leaf) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor):
        return torch.tensor(float(leaf)).double().reshape(1)
    return (leaf.dequantize() if leaf.is_quantized else leaf).double().reshape(-1)


def sqnr(expected: list, got: list) -> float:
    """Decibels over all leaves of one batch."""
    a, b = torch.cat([as_float(leaf) for leaf in expected]), torch.cat([as_float(leaf) for leaf in got])
    if a.shape != b.shape:
        return float("-inf")
    noise = (a - b).pow(2).sum()
    return float("inf") if noise == 0 else float(10 * torch.log10(a.pow(2).sum() / noise))


def output_difference(kind: str, expected: list, got: list) -> str:
    """Empty when equal, else the first difference."""
    for batch, (want, have) in enumerate(zip(expected, got)):
        if len(want) != len(have):
            return f"{kind} outputs: {len(have)} values, FX has {len(want)}"
        for index, (a, b) in enumerate(zip(want, have)):
            if same_leaf(a, b):
                continue
            if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
                return f"{kind} output {index} of batch {batch}: {b!r}, FX {a!r}"
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{kind} output {index} of batch {batch}: {b.dtype} {list(b.shape)}, FX {a.dtype} {list(a.shape)}"
            differing = int((as_float(a) != as_float(b)).sum())
            largest = float((as_float(a) - as_float(b)).abs().max())
            return (
                f"{kind} output {index} of batch {batch}: {differing} of {a.numel()} values differ, largest {largest:.3g}, "
                f"SQNR to FX {sqnr(want, have):.1f} dB"
            )
    return ""


def operator_text(entry) -> str:
    kind, scale, zero_point = entry
    return kind if scale is None else f"{kind}(scale={scale:.9g}, zero_point={zero_point})"


def comparable(entry):
    """FX drops a ReLU for which the quantize after it makes up (L-03); tsq's kernel has it. Both give the same bits, which
    the outputs show. FX's quantized dropout in eval mode does nothing. Embeddings, looked up in packed params by FX, are looked
    up in plain rows by tsq, as bags of one."""
    kind, scale, zero_point = entry
    if kind.startswith("quantized::embedding_"):
        kind = kind.replace("embedding_bag_", "embedding_").removesuffix("_rowwise_offsets")
    return None if kind == "quantized::dropout" else (kind.removesuffix("_relu"), scale, zero_point)


def operator_difference(expected: Optional[list], got: list, may_have_more: bool) -> str:
    if expected is None:
        return ""
    missing = collections.Counter(map(comparable, expected)) - collections.Counter(map(comparable, got))
    extra = collections.Counter(map(comparable, got)) - collections.Counter(map(comparable, expected))
    missing.pop(None, None)
    if may_have_more:
        extra.clear()
    if not missing and not extra:
        return ""
    parts = []
    for title, entries in (("only in FX", missing), ("only in tsq", extra)):
        texts = [operator_text(entry) + (f" x{count}" if count > 1 else "") for entry, count in entries.items()]
        if texts:
            parts.append(f"{title}: " + ", ".join(texts[:4]) + (f" and {len(texts) - 4} more" if len(texts) > 4 else ""))
    return "operators: " + "; ".join(parts)


def constant_difference(expected: set, got: set) -> str:
    """What FX rounds when the model runs is in tsq's file, rounded."""
    missing = sorted(expected - got)
    return f"constants: {len(missing)} that FX rounds have other values, {missing[0]}" if missing else ""


# ---- verdict


def differences_to(case: Case, engine: str, expected: oracle.FxResult, made: Made) -> str:
    """Empty when tsq's files equal FX's result."""
    found = []
    if expected.reference is not None and not case.one_sided_difference("reference", engine):
        found.append(output_difference("reference", expected.reference, made.reference))
    if expected.lowered is not None and not case.one_sided_difference("lowered", engine):
        found.append(operator_difference(expected.operators, made.operators, case.fx_model_is_one_way))
        found.append(constant_difference(expected.constants, made.constants))
        found.append(output_difference("lowered", expected.lowered, made.lowered))
    return "; ".join(text for text in found if text)


def is_clear_refusal(text: str) -> bool:
    return text.startswith("tsq: error: ") and len(text.splitlines()) == 1


def decibel_text(expectation: oracle.Expectation, made: Made) -> str:
    texts = []
    for name, fx, mine in (("lowered", expectation.plain.lowered, made.lowered), ("reference", expectation.plain.reference, made.reference)):
        if mine is not None:
            texts.append(f"{name} {sqnr(expectation.float_outputs[0], mine[0]):.1f} dB" + (f" (FX {sqnr(expectation.float_outputs[0], fx[0]):.1f})" if fx is not None else ""))
    return "to float: " + ", ".join(texts)


def good_by_itself(case: Case, expectation: oracle.Expectation, made: Made) -> str:
    """For cases without a result of FX to equal: empty when tsq's files are close enough to float."""
    for name, outputs in (("lowered", made.lowered), ("reference", made.reference)):
        decibels = sqnr(expectation.float_outputs[0], outputs[0])
        if not decibels >= case.min_sqnr:
            return f"{name} model has {decibels:.1f} dB to float, {case.min_sqnr:.0f} are asked for"
    return ""


def judge(case: Case, engine: str, expectation: oracle.Expectation, made: Made):
    """(verdict, text)"""
    candidates = []
    if expectation.rewritten is not None:
        candidates.append((REWRITTEN, expectation.rewritten))
    if not case.known_difference or case.accept_plain_fx:
        candidates.append((EQUAL, expectation.plain))
    fx_failed = all(fx.lowered is None for _, fx in candidates) if candidates else expectation.plain.lowered is None
    errors = "; ".join(f"{stage}: {text}" for _, fx in candidates or [(EQUAL, expectation.plain)] for stage, text in fx.errors.items())
    if made.crash:
        return FAILED, made.crash
    if made.refusal:
        if fx_failed and is_clear_refusal(made.refusal):
            return REFUSED, f"{made.refusal} (FX fails: {errors})"
        return FAILED, f"tsq refused: {made.refusal[-400:]}"
    if made.rounded_constants:
        return FAILED, f"the lowered model rounds {len(made.rounded_constants)} constants in each run"
    one_sided = case.one_sided_difference("reference", engine) or case.one_sided_difference("lowered", engine)
    if one_sided:
        weak = good_by_itself(case, expectation, made)
        if weak:
            return FAILED, f"{weak} ({one_sided})"
    first = ""
    for verdict, fx in candidates:
        difference = differences_to(case, engine, fx, made)
        if not difference and fx.lowered is not None:
            return (BETTER, f"{decibel_text(expectation, made)} ({one_sided})") if one_sided else (verdict, "")
        first = first or difference
    without_fx = not candidates or fx_failed or (case.accept_plain_fx and expectation.rewritten is None)
    if without_fx and not (fx_failed and first):
        # Nothing but float is no better than an exception.
        weak = good_by_itself(case, expectation, made) or ("" if made.operators or not fx_failed else "nothing is quantized")
        reason = f"FX fails: {errors}" if fx_failed else case.known_difference
        return (FAILED, f"{weak} ({reason})") if weak else (BETTER, f"{decibel_text(expectation, made)} ({reason})")
    return FAILED, f"{first}; {decibel_text(expectation, made)}"


# ---- one case


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
    made = run_stand_in(case, paths, engine) if options.stand_in else run_tsq(options, server, case, paths, engine)
    verdict, text = judge(case, engine, expectation, made)
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
    parser.add_argument("--cache", type=Path, default=Path("conformance_cache"), help="folder for FX's results and tsq's files")
    parser.add_argument("--engine", default="all", help="comma separated, or 'all' (default: %(default)s)")
    parser.add_argument("--case", default="", help="regular expression that a case's whole name must match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at once (default: %(default)s)")
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
    if not (options.list or options.oracle_only or options.stand_in):
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
    counts: collections.Counter = collections.Counter()

    def report(job, verdict: str, text: str, seconds: float) -> None:
        counts[verdict] += 1
        if verdict == FAILED or not options.failures:
            case, engine = job
            print(f"{'FAIL' if verdict == FAILED else 'pass'} {engine:8} {case.name} ({seconds:.1f} s)" + (f": {'' if verdict in (FAILED, EQUAL, FX_ONLY) else verdict + ': '}{text}" if text or verdict == REWRITTEN else ""), flush=True)

    start = time.monotonic()
    # All of them are looked at: the digests of the sources are then those of this process, whatever is edited meanwhile.
    cached = [oracle.is_cached(case, engine, options.cache) for case, engine in jobs]
    if options.stand_in or not all(cached):
        oracle.import_fx_fully()
    servers = [JobServer(options.jobs_by) if options.jobs_by else None for _ in range(options.jobs)]
    forked(jobs, lambda job, server: check(job, server, options), servers, report)
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
