"""Runs a file of fused programs (tsq quantize --target fused) on data: run_fused.py libtsq_runtime.so FUSED.pt DATA.pt"""

import sys

import torch


def main(library: str, model_file: str, data_file: str) -> None:
    torch.ops.load_library(library)  # registers the class that the file holds
    model = torch.jit.load(model_file)
    with torch.inference_mode():
        for sample in torch.load(data_file, weights_only=False):
            print("classes", *model(*sample).argmax(-1).tolist())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: run_fused.py libtsq_runtime.so FUSED.pt DATA.pt")
    main(*sys.argv[1:])
