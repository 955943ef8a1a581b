"""Writes a float model and its data: write_text.py FLOAT.pt DATA.pt

The data is the text of Python's own reference, out of the package pydoc_data: which character follows on sixteen others.
"""

import sys
from pydoc_data.topics import topics

import torch
from torch import nn

ALPHABET = " etaoinsrhldcumfpgybwvkxjqz"
WINDOW, BATCH = 16, 256


class NextCharacter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), 24)
        self.layers = nn.Sequential(
            nn.Conv1d(24, 64, 5), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 64, 5, stride=2), nn.BatchNorm1d(64), nn.ReLU(), nn.Flatten()
        )
        self.classify = nn.Linear(64 * 4, len(ALPHABET))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layers(self.embed(text).transpose(1, 2)))


def batches() -> list:
    text = [ALPHABET.index(letter) for letter in " ".join(topics.values()).lower() if letter in ALPHABET]
    windows = torch.tensor(text).unfold(0, WINDOW + 1, 7)
    # Windows of the last fifth are held back: their text is in no other.
    parts = [part[torch.randperm(len(part))] for part in windows.tensor_split([len(windows) * 4 // 5])]
    rows = torch.cat(parts)
    rows = rows[: len(rows) // BATCH * BATCH].reshape(-1, BATCH, WINDOW + 1)
    return [(batch[:, :-1].contiguous(), batch[:, -1].contiguous()) for batch in rows]


def train(model: nn.Module, data: list) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        for inputs, targets in data:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


def main(model_file: str, data_file: str) -> None:
    torch.manual_seed(1)
    data, model = batches(), NextCharacter()
    train(model, data[: -(len(data) // 5)])
    torch.jit.script(model.eval()).save(model_file)
    torch.save(data, data_file)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: write_text.py FLOAT.pt DATA.pt")
    main(*sys.argv[1:])
