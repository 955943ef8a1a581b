"""What a Python program does with a fused file: torch.ops.load_library, torch.jit.script, save, load, profile."""

import json
import os
import subprocess
import sys
import tempfile

import torch

LOAD = """
import sys, torch
torch.ops.load_library(sys.argv[1])
image, expected = torch.load(sys.argv[3])
assert torch.jit.load(sys.argv[2])(image).equal(expected)
"""


class Fused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        operations = {
            "version": 1,
            "values": [
                {"dtype": "f32"},
                {"dtype": "u8", "scale": 0.02, "zero_point": 128},
                {"dtype": "f32"},
            ],
            "inputs": [0],
            "outputs": [2],
            "operations": [
                {"kind": "convert", "inputs": [0], "output": 1},
                {"kind": "convolution", "inputs": [1], "output": 2, "weight": 0, "weight_scales": 1, "bias": 2,
                 "padding_begin": [1, 1], "padding_end": [1, 1], "bounded": True, "post_ops": [{"kind": "relu"}]},
            ],
        }
        weight = torch.randint(-63, 64, (8, 3, 3, 3), dtype=torch.int8)
        self.weight = weight.float() * 0.01
        self.bias = torch.rand(8)
        self.program = torch.classes.tsq.Program(json.dumps(operations), [weight, torch.full((8,), 0.01), self.bias])

    def forward(self, image):
        return self.program.forward([image], [])[0]


def main(library):
    torch.manual_seed(0)
    torch.ops.load_library(library)
    assert isinstance(torch.ops.tsq.has_exact_int8_sums(), bool)
    model = Fused()
    image = torch.randint(-100, 100, (1, 3, 16, 16)) * 0.02
    result = model(image)
    assert torch.allclose(result, torch.conv2d(image, model.weight, model.bias, padding=1).relu(), atol=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        file, data = os.path.join(folder, "fused.pt"), os.path.join(folder, "data.pt")
        torch.jit.script(model).save(file)
        torch.save((image, result), data)
        subprocess.run([sys.executable, "-c", LOAD, library, file, data], check=True)
    steps = json.loads(model.program.profile([image], [], 2))
    assert [step["kind"] for step in steps][:2] == ["convert", "convolution"], steps


main(sys.argv[1])
