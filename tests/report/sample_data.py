"""Makes data for the page of `tsq report` to be tested with; the figures are made up, from a fixed seed.

    tests/report/sample_data.py KIND OUT.json        # KIND: one of REPORTS, such as small or large
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

BINS = 64
HOSTILE_NAMES = [
    "</script><img src=x onerror=document.title='attacked'>",
    "<!--tsq:scripts-->",
    "__proto__.constructor",
    "\"'&<b>bold</b>\\u2028\u2028",
    "....",
    "ein Name\nmit Zeilen\tund ümläuten 層.0",
    "<!--<script>alert(1)</script>",  # last: a later "-->" would take its effect away
]


def histogram(generator: random.Random, width: float) -> dict:
    counts = [round(20000 * math.exp(-(((bin - BINS / 2) / 9) ** 2) / 2) * generator.uniform(0.7, 1.3)) for bin in range(BINS)]
    return {"low": -width, "high": width, "counts": counts, "range": [-0.8 * width, 0.78 * width]}


def operator(identity: int, kind: str, layer: str, inputs: list[int], numbers: str, generator: random.Random) -> dict:
    return {
        "id": identity,
        "kind": kind,
        "layer": layer,
        "inputs": inputs,
        "numbers": numbers,
        "seconds": generator.lognormvariate(-9, 1),
        "sqnr_db": generator.uniform(18, 45) if numbers == "int8" else None,
        "alone_sqnr_db": generator.uniform(35, 60) if numbers == "int8" else None,
        "shape": [1, 32, 28, 28],
    }


def block_operators(first: int, before: int, path: str, is_int8: bool, generator: random.Random) -> list[dict]:
    """A residual block: two convolutions and an addition of what came in."""
    numbers = "int8" if is_int8 else "float"
    int8_kinds = ("quantized::conv2d_relu", "quantized::conv2d", "quantized::add_relu")
    first_conv, second_conv, add = int8_kinds if is_int8 else ("aten::conv2d", "aten::conv2d", "aten::add")
    return [
        operator(first, first_conv, f"{path}.conv1", [before], numbers, generator),
        operator(first + 1, second_conv, f"{path}.conv2", [first], numbers, generator),
        operator(first + 2, add, f"{path}.add", [first + 1, before], numbers, generator),
    ]


def network(blocks: int, is_int8: bool, generator: random.Random, depth: str = "stage{stage}.{block}") -> list[dict]:
    """A quantization, blocks in stages of ten, and a classifier that is float."""
    kind, numbers = ("aten::quantize_per_tensor", "conversion") if is_int8 else ("aten::contiguous", "other")
    operators = [operator(0, kind, "", [], numbers, generator)]
    for block in range(blocks):
        path = depth.format(stage=block // 10, block=block % 10, number=block)
        operators += block_operators(len(operators), len(operators) - 1, path, is_int8, generator)
    for kind, layer in (("aten::dequantize" if is_int8 else "aten::detach", ""), ("aten::linear", "classifier"), ("aten::softmax", "")):
        numbers = "conversion" if kind == "aten::dequantize" else "float"
        operators.append(operator(len(operators), kind, layer, [len(operators) - 1], numbers, generator))
    return operators


def layer_row(node: dict, generator: random.Random) -> dict:
    return {
        "layer": node["layer"],
        "kernel": node["kind"],
        "float_operator": "aten::relu",
        "sqnr_db": node["sqnr_db"],
        "alone_sqnr_db": node["alone_sqnr_db"],
        "weight_sqnr_db": generator.uniform(35, 50),
        "outside": generator.uniform(0, 0.01),
        "codes": 256,
        "codes_used": generator.randrange(60, 257),
        "is_scaled": generator.random() < 0.1,
        "outlier": generator.uniform(1, 6),
        "seconds": node["seconds"],
        "float_seconds": node["seconds"] * generator.uniform(1.2, 5),
        "activation": histogram(generator, generator.uniform(1, 8)),
        "weight": histogram(generator, generator.uniform(0.05, 0.4)),
    }


def decision(number: int, node: dict) -> dict:
    is_int8 = node["numbers"] == "int8"
    return {
        "node": f"node_{number}",
        "layer": node["layer"],
        "operator": "torch.nn.Conv2d" if is_int8 else node["kind"],
        "quantized": is_int8,
        "kernel": node["kind"] if is_int8 else None,
        "reason": None if is_int8 else "no pattern of backend 'x86' matches it",
        "remedy": None if is_int8 else "see tsq backend-config show x86",
        "qconfig": "HistogramObserver, PerChannelMinMaxObserver" if is_int8 else None,
        "qconfig_source": "global" if is_int8 else None,
        "notes": ["fused with the ReLU after it"] if node["kind"].endswith("_relu") else [],
    }


def advice(row: dict) -> dict:
    return {
        "layer": row["layer"],
        "finding": f"an outlier channel: channel 7 is {row['outlier']:.1f} times as wide as the others",
        "figures": f"outlier {row['outlier']:.1f}, SQNR {row['sqnr_db']:.1f} dB",
        "advice": "observe each channel of the weight by itself",
        "mapping": {"module_name_qconfigs": [[row["layer"], {"weight": "PerChannelMinMaxObserver"}]]},
    }


def float_model(blocks: int, generator: random.Random, **names: str) -> dict:
    operators = network(blocks, False, generator, **names)
    return {
        "name": "model.pt",
        "role": "float",
        "bytes": 18_990_000,
        "sha1": "0" * 40,
        "latency": {"median_seconds": 0.0138},
        "operators": operators,
        "layers": [],
    }


def accuracy(generator: random.Random) -> dict:
    decisions = {"judged_by": "softmax", "dim": 1, "rows": 96, "agreed": generator.randint(88, 96), "tied": 0, "left_out": 0,
                 "clear": {"rows": 41, "agreed": 41, "tied": 0}}
    text = f"{decisions['agreed']} of 96 as in float, of the clear ones 41 of 41; rows of a softmax along dimension 1"
    output = {"name": "output", "sqnr_db": generator.uniform(20, 32), "decisions": decisions, "text": text}
    return {"sqnr_db": output["sqnr_db"], "agreement": decisions["agreed"] / 96, "decisions": decisions, "outputs": [output]}


def int8_model(name: str, blocks: int, generator: random.Random, **names: str) -> dict:
    operators = network(blocks, True, generator, **names)
    layers = [layer_row(node, generator) for node in operators if node["numbers"] == "int8"]
    median = generator.uniform(0.003, 0.006)
    return {
        "name": name,
        "role": "int8",
        "engine": "x86",
        "bytes": round(5_150_000 * generator.uniform(0.9, 1.1)),
        "sha1": "1" * 40,
        "recipe": "best",
        "mode": "static",
        "latency": {"median_seconds": median, "ratio": 0.0138 / median, "ratio_low": 0.0136 / median, "ratio_high": 0.014 / median},
        "accuracy": accuracy(generator),
        "operators": operators,
        "layers": layers,
        "missing_layers": [{"layer": "classifier", "reason": "it is float in both models"}],
        "advice": [advice(row) for row in layers[:3]],
        "decisions": [decision(number, node) for number, node in enumerate(operators) if node["layer"]],
    }


def report(models: list[dict]) -> dict:
    return {
        "format": 1,
        "title": " and ".join(model["name"] for model in models),
        "tsq": "0.1.0",
        "torch": "2.13.0",
        "date": "2026-11-26T17:00:00Z",
        "command": f"tsq report {' '.join(model['name'] for model in models)} --data test.pt --output report.html",
        "machine": {"processor": "a processor", "features": "avx2 avx512_vnni", "threads": 1},
        "data": {"file": "test.pt", "samples": 16},
        "models": models,
    }


def small() -> dict:
    generator = random.Random(1)
    return report([float_model(8, generator), int8_model("model.int8.pt", 8, generator)])


def two_int8() -> dict:
    generator = random.Random(2)
    second = int8_model("model.fx.pt", 8, generator)
    second["decisions"][3].update(quantized=False, kernel=None, reason="it was excluded", qconfig=None)
    second["layers"].pop()
    second["advice"].pop()
    second["accuracy"]["fault"] = "it decides differently than the float model"
    return report([float_model(8, generator), int8_model("model.best.pt", 8, generator), second])


def large() -> dict:
    """More than 5,000 operators."""
    generator = random.Random(3)
    blocks = 1700
    return report([float_model(blocks, generator), int8_model("model.int8.pt", blocks, generator)])


def flat() -> dict:
    """More than 5,000 operators whose layers have no path, as in a frozen file."""
    data = large()
    for model in data["models"]:
        for node in model["operators"]:
            node["layer"] = ""
    return data


def tangled() -> dict:
    """Operators in random modules with inputs from anywhere before them, so that groups feed one another in both directions."""
    generator = random.Random(6)
    parts = ["a", "b", "c", "d"]
    model = int8_model("model.int8.pt", 0, generator)
    model["operators"] = []
    for number in range(400):
        path = ".".join(generator.choices(parts, k=generator.randrange(0, 5)))
        inputs = [generator.randrange(number) for _ in range(generator.randrange(0, 4))] if number else []
        numbers = generator.choice(["int8", "float", "conversion", "other"])
        model["operators"].append(operator(number, "quantized::add", path, inputs, numbers, generator))
    return report([float_model(1, generator), model])


def float_only() -> dict:
    return report([float_model(2, random.Random(4))])


def bare() -> dict:
    """Nothing that may be absent is there, or it is null; an input is not known, and one layer was measured."""
    operators = [{"id": 7, "kind": "aten::linear", "layer": None, "inputs": [3, 7], "numbers": "float"}]
    row = {"layer": "fc", "kernel": None, "float_operator": None, "sqnr_db": None, "is_scaled": False, "activation": None}
    return {
        "format": 1,
        "models": [
            {"name": "a.pt", "role": "float", "operators": [], "layers": None, "latency": None},
            {"name": "b.pt", "role": "int8", "operators": operators, "layers": [row], "accuracy": {"sqnr_db": None}, "decisions": None},
        ],
    }


def exact() -> dict:
    """One layer returns what the float model returns."""
    operators = [operator(number, "aten::linear", name, [], "float", random.Random(6)) for number, name in enumerate(("fc", "head"))]
    rows = [{"layer": name, "kernel": "aten::linear", "is_scaled": False} for name in ("fc", "head")]
    for parts in (operators, rows):
        parts[0] |= {"sqnr_db": "infinite", "alone_sqnr_db": "infinite"}
        parts[1] |= {"sqnr_db": 30.5, "alone_sqnr_db": 41.5}
    return {"format": 1, "models": [{"name": "b.pt", "role": "int8", "operators": operators, "layers": rows}]}


def nothing() -> dict:
    return {"format": 1, "models": []}


def hostile() -> dict:
    """Names that would end the data, run as a script or be taken for members of an object, if the page let them."""
    generator = random.Random(5)
    blocks = len(HOSTILE_NAMES)
    models = [float_model(blocks, generator, depth="{number}"), int8_model(HOSTILE_NAMES[0], blocks, generator, depth="{number}")]
    text = json.dumps(report(models))
    for number, name in enumerate(HOSTILE_NAMES):
        text = text.replace(f'"{number}.', f'"{json.dumps(name)[1:-1]}.')
    return json.loads(text)


REPORTS = {
    "small": small, "two_int8": two_int8, "large": large, "flat": flat, "tangled": tangled,
    "float_only": float_only, "bare": bare, "exact": exact, "nothing": nothing, "hostile": hostile,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes data for the page of `tsq report` to be tested with.")
    parser.add_argument("kind", choices=REPORTS)
    parser.add_argument("output", type=Path, metavar="OUT.json")
    arguments = parser.parse_args()
    try:
        arguments.output.write_text(json.dumps(REPORTS[arguments.kind]()), encoding="utf-8")
    except OSError as error:
        print(f"sample_data: {arguments.output}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
