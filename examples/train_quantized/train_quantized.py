"""Trains a file of `tsq prepare --qat` in Python: train_quantized.py PREPARED.pt DATA.pt TRAINED.pt

DATA.pt is a list of pairs (inputs, targets) of torch.save, of which the last fifth is held back.
"""

import sys

import torch

EPOCHS = 3


def share_of_right(model, batches: list) -> float:
    model.eval()
    with torch.no_grad():
        right = [(model(inputs).argmax(1) == targets).float().mean() for inputs, targets in batches]
    return float(torch.stack(right).mean())


def main(prepared_file: str, data_file: str, trained_file: str) -> None:
    batches = torch.load(data_file)
    held_back = batches[-(len(batches) // 5) :]
    model = torch.jit.load(prepared_file)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.train()
    with torch.jit.optimized_execution(False):  # optimizing takes memory and saves no time here
        for epoch in range(EPOCHS):
            if epoch == EPOCHS - 1:
                model.apply(torch.ao.quantization.disable_observer)  # from here on ranges stay as they are
                model.freeze_bn_stats()  # and batch norms use their running statistics
            for inputs, targets in batches[: -len(held_back)]:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
    print(f"right: trained {share_of_right(model, held_back):.4f}")
    torch.jit.save(model, trained_file)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: train_quantized.py PREPARED.pt DATA.pt TRAINED.pt")
    main(*sys.argv[1:])
