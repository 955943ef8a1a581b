"""Faults of any file: cut, flipped bits, blocks that are gone, doubled, moved or filled."""

import struct
from random import Random

MARKED = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1]


def cut(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def flip_bits(random: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 8, 64])):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def block(random: Random, content: bytes):
    begin = random.randrange(len(content) + 1)
    return begin, min(len(content), begin + random.choice([1, 4, 16, 64, 1024]))


def drop_block(random: Random, content: bytes) -> bytes:
    begin, end = block(random, content)
    return content[:begin] + content[end:]


def double_block(random: Random, content: bytes) -> bytes:
    begin, end = block(random, content)
    return content[:end] + content[begin:end] * random.choice([1, 2, 50]) + content[end:]


def move_block(random: Random, content: bytes) -> bytes:
    begin, end = block(random, content)
    to = random.randrange(len(content) + 1)
    rest = content[:begin] + content[end:]
    return rest[:to] + content[begin:end] + rest[to:]


def fill_block(random: Random, content: bytes) -> bytes:
    begin, end = block(random, content)
    filling = random.choice([b"\0", b"\xff", b"A", None])
    filled = random.randbytes(end - begin) if filling is None else filling * (end - begin)
    return content[:begin] + filled + content[end:]


def marked_number(random: Random, content: bytes) -> bytes:
    width = random.choice([1, 2, 4, 8])
    number = random.choice(MARKED) & (2 ** (8 * width) - 1)
    begin = random.randrange(max(1, len(content) - width))
    return content[:begin] + struct.pack("<Q", number)[:width] + content[begin + width:]


FAULTS = [cut, flip_bits, flip_bits, drop_block, double_block, move_block, fill_block, marked_number]


def any_fault(random: Random, content: bytes):
    fault = random.choice(FAULTS)
    return fault.__name__, fault(random, content)
