"""Whether what tsq made of a case is right: equal to FX bit for bit, or, where FX has nothing sound to equal, near float, in int8."""

import collections
from typing import Callable, Optional

import oracle
from case import Case
from comparison import first_difference, first_weakness, least_sqnr
from jobs import FAILED
from made import Made

EQUAL, REWRITTEN, BETTER, REFUSED = "equal", "equal to FX of the rewritten model", "better than FX", "refused"

SIDES = ("reference", "lowered")


# ---- operators


def operator_text(entry) -> str:
    kind, scale, zero_point = entry
    return kind if scale is None else f"{kind}(scale={scale:.9g}, zero_point={zero_point})"


def comparable(entry):
    """FX drops a ReLU that the quantize after it makes up for (L-03); tsq's kernel has it. Both give the same bits, which
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


WITH_WEIGHTS = ("conv", "linear", "embedding", "lstm", "gru", "rnn")


def too_few_kernels(case: Case, engine: str, operators: list) -> str:
    """A model that stayed float is near float, too: each layer with weights has a kernel, or the case says why not."""
    kernels = [kind for kind, _, _ in operators if kind != "aten::quantize_per_tensor"]
    layers, stay_float = case.layers_with_weights(), case.float_layers_on(engine)
    quantized = sum(any(word in kind for word in WITH_WEIGHTS) for kind in kernels)
    if quantized < layers - stay_float:
        return f"{quantized} of {layers} layers are quantized, {stay_float} may stay float"
    return "" if kernels or stay_float else "nothing is quantized"


# ---- verdict


def sound_sides(case: Case, engine: str, fx: oracle.FxResult) -> dict:
    """The outputs of FX that are there and right, by stage."""
    return {side: getattr(fx, side) for side in SIDES if getattr(fx, side) is not None and not case.one_sided_difference(side, engine)}


def differences_to(case: Case, fx: oracle.FxResult, sides: dict, made: Made) -> str:
    """Empty when tsq's files equal FX's result where that is sound."""
    found = [f"{side} {text}" for side, outputs in sides.items() if (text := first_difference(outputs, getattr(made, side), "FX"))]
    if "lowered" in sides:
        found += [operator_difference(fx.operators, made.operators, case.fx_model_is_one_way), constant_difference(fx.constants, made.constants)]
    return "; ".join(text for text in found if text)


def weak_beside(case: Case, engine: str, sides: dict, made: Made) -> str:
    """Where FX is right on one side alone: both sides mean the same, so tsq's other one must be near that."""
    (right,) = sides.values()
    other = next(side for side in SIDES if side not in sides)
    weak = first_weakness(right, getattr(made, other), case.floor(engine))
    if weak:
        return f"{other} {weak}"
    return too_few_kernels(case, engine, made.operators) if other == "lowered" else ""


def weak_beside_float(case: Case, engine: str, expectation: oracle.Expectation, made: Made, recalibrated: Callable[[], Made]) -> str:
    """Where FX is right on neither side. The second batch leaves the range of the calibration data and is cut off, which takes any
    model far from float: tsq's two must cut off alike, and be near float on it once calibration has seen it."""
    weak = first_weakness(made.reference, made.lowered, case.floor(engine))
    if weak:
        return f"lowered {weak} beside the reference model"
    again = recalibrated()
    if again.refusal or again.crash:
        return f"calibrated on other data: {again.refusal or again.crash}"
    for batch, models in enumerate((made, again)):
        for side in SIDES:
            weak = first_weakness(expectation.float_outputs, getattr(models, side), case.floor(engine), [batch])
            if weak:
                return f"{side} {weak} beside float"
    return too_few_kernels(case, engine, made.operators)


def judge_refusal(case: Case, fx_failed: bool, errors: str, text: str):
    if not fx_failed:
        return FAILED, f"tsq refused: {text[-400:]}"
    if not text.startswith("tsq: error: ") or len(text.splitlines()) != 1:
        return FAILED, f"tsq refused, but not in one sentence: {text[-400:]}"
    if not case.refusal or case.refusal not in text:
        return FAILED, f"tsq refused with {text[-400:]!r}, the case expects {case.refusal!r}"
    return REFUSED, f"{text} (FX fails: {errors})"


def decibel_text(expectation: oracle.Expectation, made: Made) -> str:
    texts = []
    for side in reversed(SIDES):
        fx, mine = getattr(expectation.plain, side), getattr(made, side)
        if mine is not None:
            beside = f" (FX {least_sqnr(expectation.float_outputs[0], fx[0]):.1f})" if fx is not None else ""
            texts.append(f"{side} {least_sqnr(expectation.float_outputs[0], mine[0]):.1f} dB{beside}")
    return "to float: " + ", ".join(texts)


def judge(case: Case, engine: str, expectation: oracle.Expectation, made: Made, recalibrated: Callable[[], Made]):
    """(verdict, text). `recalibrated` makes the files again, calibrated on the evaluation batches."""
    candidates = []
    if expectation.rewritten is not None:
        candidates.append((REWRITTEN, expectation.rewritten))
    if not case.known_difference or case.accept_plain_fx:
        candidates.append((EQUAL, expectation.plain))
    tried = [fx for _, fx in candidates] or [expectation.plain]
    errors = "; ".join(f"{stage}: {text}" for fx in tried for stage, text in fx.errors.items())
    if made.crash:
        return FAILED, made.crash
    if made.refusal:
        return judge_refusal(case, all(fx.lowered is None for fx in tried), errors, made.refusal)
    if case.refusal:
        return FAILED, f"tsq quantized what it is expected to refuse: {case.refusal!r}"
    if made.rounded_constants:
        return FAILED, f"the lowered model rounds {len(made.rounded_constants)} constants in each run"
    reason = case.known_difference or " ".join(filter(None, (case.one_sided_difference(side, engine) for side in SIDES)))
    reason = f"FX fails: {errors}" if errors else reason
    first = ""
    for verdict, fx in candidates:
        sides = sound_sides(case, engine, fx)
        difference = differences_to(case, fx, sides, made)
        if len(sides) == len(SIDES) and not difference:
            return verdict, ""
        if sides and not difference:
            weak = weak_beside(case, engine, sides, made)
            return (FAILED, f"{weak} ({reason})") if weak else (BETTER, f"{decibel_text(expectation, made)} ({reason})")
        first = first or difference
    if first and not (case.accept_plain_fx and expectation.rewritten is None):
        return FAILED, f"{first}; {decibel_text(expectation, made)}"
    weak = weak_beside_float(case, engine, expectation, made, recalibrated)
    return (FAILED, f"{weak} ({reason})") if weak else (BETTER, f"{decibel_text(expectation, made)} ({reason})")
