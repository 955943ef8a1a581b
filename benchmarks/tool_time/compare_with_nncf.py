"""What quantizing costs: processor seconds of `tsq quantize`, its trial included, and of NNCF, each a process of its own.

The networks are MobileNetV2 and ResNet-50 on 16 batches of 8 images and MiniLM on 16 batches of 4 texts. Their weights are drawn,
because the time does not depend on them. Collection is what `calibrate` takes on one thread, divided by a run of the float network
over the same data.

  pip install nncf openvino transformers; pip install --no-deps torchvision
  python compare_with_nncf.py --tsq build/release/bin/tsq
  python compare_with_nncf.py --tsq build/release/bin/tsq --network minilm --rounds 3 --effort high
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

BATCHES = 16
# torchvision's wheel has its operators built for CUDA; their names are enough to import its networks, as transformers does too.
TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
    TORCHVISION.define(f"{operator}(Tensor x) -> Tensor")
    if not operator.endswith("nms"):
        TORCHVISION.define(f"_{operator}_backward(Tensor x) -> Tensor")


def images() -> list:
    torch.manual_seed(1)
    coarse = [torch.randn(8, 3, 14, 14) for _ in range(BATCHES)]
    return [(nn.functional.interpolate(x, size=224, mode="bicubic").clamp(-2.5, 2.5),) for x in coarse]


def vision_network(name: str) -> torch.jit.ScriptModule:
    import torchvision

    torch.manual_seed(0)
    network = getattr(torchvision.models, name)(weights=None)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    with torch.no_grad():
        for x, in images()[:4]:
            network.train()(x)
    return torch.jit.script(network.eval())


class MiniLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        self.bert = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
                                         attn_implementation="eager"))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=mask, return_dict=False)[0]
        weights = mask.unsqueeze(-1).float()
        return (hidden * weights).sum(1) / weights.sum(1)


def minilm() -> tuple:
    torch.manual_seed(0)
    mask = torch.ones(4, 64, dtype=torch.long)
    texts = [(torch.randint(1000, 30000, (4, 64)), mask) for _ in range(BATCHES)]
    return torch.jit.trace(MiniLM().eval(), texts[0], check_trace=False, strict=False), texts


NETWORKS = {
    "mobilenet_v2": lambda: (vision_network("mobilenet_v2"), images()),
    "resnet50": lambda: (vision_network("resnet50"), images()),
    "minilm": minilm,
}

NNCF = """
import sys, nncf, openvino, torch
model, data, kind, output = sys.argv[1:]
samples = torch.load(data)
network = openvino.convert_model(torch.jit.load(model).eval(), example_input=samples[0] if len(samples[0]) > 1 else samples[0][0])
arrays = [tuple(x.numpy() for x in sample) if len(sample) > 1 else sample[0].numpy() for sample in samples]
options = {"model_type": nncf.ModelType.TRANSFORMER} if kind == "minilm" else {}
openvino.save_model(nncf.quantize(network, nncf.Dataset(arrays, lambda x: x), subset_size=len(samples), **options), output)
"""


def processor_seconds(command: list) -> tuple:
    """Of user and system, and what the command printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"compare_with_nncf: error: {' '.join(command[:2])}: {done.stderr.strip()[-500:]}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def float_seconds(model: Path, samples: list) -> float:
    """Of one run over the data on one thread."""
    network = torch.jit.load(str(model)).eval()
    torch.set_num_threads(1)
    times = []
    with torch.no_grad(), torch.jit.optimized_execution(False):
        for _ in range(2):
            begin = time.perf_counter()
            for sample in samples:
                network(*sample)
            times.append(time.perf_counter() - begin)
    return min(times)


def collection(tsq: str, files: dict, recipe: str, float_run: float) -> float:
    command = [tsq, "quantize", files["model"], "--calib", files["data"], "-o", files["int8"], "--recipe", recipe, "--threads", "1",
               "--no-check", "--force", "--json"]
    steps = json.loads(processor_seconds(command)[1])["steps"]
    return sum(step["seconds"] for step in steps if step["step"] == "calibrate") / float_run


def measure(name: str, options, folder: Path) -> None:
    network, samples = NETWORKS[name]()
    files = {"model": str(folder / f"{name}.pt"), "data": str(folder / f"{name}.data.pt"), "int8": str(folder / f"{name}.int8.pt")}
    network.save(files["model"])
    torch.save(samples, files["data"])
    ours, theirs = [], []
    for _ in range(options.rounds):
        command = [options.tsq, "quantize", files["model"], "--calib", files["data"], "-o", files["int8"], "--force", "--effort", options.effort]
        ours.append(processor_seconds(command)[0])
        theirs.append(processor_seconds([sys.executable, "-c", NNCF, files["model"], files["data"], name, str(folder / f"{name}.xml")])[0])
    float_run = float_seconds(files["model"], samples)
    shares = [collection(options.tsq, files, recipe, float_run) for recipe in ("best", "fx")]
    print(f"{name:14} {min(ours):8.1f} {min(theirs):8.1f} {min(ours) / min(theirs):8.2f} {shares[0]:12.2f} {shares[1]:10.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tsq", required=True)
    parser.add_argument("--network", choices=NETWORKS, action="append", help="default: all three")
    parser.add_argument("--rounds", type=int, default=2, help="in turns; the least counts (default: 2)")
    parser.add_argument("--effort", choices=("low", "normal", "high"), default="normal")
    options = parser.parse_args()
    print(f"{'network':14} {'tsq, s':>8} {'NNCF, s':>8} {'ratio':>8} {'collect best':>12} {'fx':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.network or NETWORKS:
            measure(name, options, Path(folder))


if __name__ == "__main__":
    main()
