"""Faults of pickles: operations changed, dropped, doubled and put in, numbers and names changed, deep and cyclic containers."""

import pickletools
import struct
from random import Random
from typing import List

import json_faults

NUMBERS = [0, 1, -1, 2, 3, 7, 255, 256, 65535, 2**31 - 1, -2**31, 2**31, 2**40, 2**62, 2**63 - 1, -2**63]
NAMES = ["torch FloatStorage", "torch DoubleStorage", "torch QInt8Storage", "torch QUInt8Storage", "torch ComplexFloatStorage",
         "torch BoolStorage", "torch BFloat16Storage", "torch.storage UntypedStorage", "torch._utils _rebuild_tensor_v2",
         "torch._utils _rebuild_qtensor", "torch._utils _rebuild_sparse_tensor", "torch._utils _rebuild_parameter",
         "torch._utils _rebuild_meta_tensor_no_storage", "torch.jit._pickle build_intlist", "torch.jit._pickle build_tensorlist",
         "torch.jit._pickle restore_type_tag", "collections OrderedDict", "torch device", "torch Size", "torch per_channel_affine",
         "torch per_tensor_affine", "torch._C _from_dlpack", "os system", "builtins eval", "__torch__ Missing",
         "__torch__.torch.classes.quantized LinearPackedParamsBase", "__torch__.torch.classes.tsq Program",
         "__torch__.torch.classes.rnn CellParamsBase", "fractions Fraction", "fft", "a" * 5000 + " b"]


def parts(content: bytes) -> List[bytes]:
    """The operations of a pickle, one after the other."""
    starts = [position for _, _, position in pickletools.genops(content)]
    return [content[a:b] for a, b in zip(starts, starts[1:] + [len(content)])]


def integer(number: int) -> bytes:
    if -2**31 <= number < 2**31:
        return b"J" + struct.pack("<i", number)
    wide = number.to_bytes((number.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(wide)]) + wide


def text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def is_integer(part: bytes) -> bool:
    return part[:1] in (b"K", b"M", b"J", b"\x8a")


def is_text(part: bytes) -> bool:
    return part[:1] == b"X"


def is_memo(part: bytes) -> bool:
    return part[:1] in (b"q", b"r", b"h", b"j")


def chosen(random: Random, found: List[bytes], wanted) -> int:
    places = [index for index, part in enumerate(found) if wanted(part)]
    return random.choice(places) if places else random.randrange(len(found))


def change_integer(random: Random, found):
    found[chosen(random, found, is_integer)] = integer(random.choice(NUMBERS))


def change_text(random: Random, found):
    found[chosen(random, found, is_text)] = text(random.choice(json_faults.STRINGS + ["0", "1", "cpu", "cuda:0", "meta", "training"]))


def change_name(random: Random, found):
    index = chosen(random, found, lambda part: part[:1] == b"c")
    found[index] = b"c" + random.choice(NAMES).replace(" ", "\n").encode() + b"\n"


def change_memo(random: Random, found):
    index = chosen(random, found, is_memo)
    operation = random.choice([b"q", b"h"])
    found[index] = operation + bytes([random.choice([0, 1, 2, 5, 100, 255])])
    if random.random() < 0.3:
        found[index] = random.choice([b"r", b"j"]) + struct.pack("<I", random.choice([0, 300, 2**31 - 1, 2**32 - 1, 10**9]))


def change_operation(random: Random, found):
    index = random.randrange(len(found))
    found[index] = bytes([random.choice(b"()0123.\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8bNR]}abcehjlopqrstuQXKMJGTUBb")]) + found[index][1:]


def drop_operation(random: Random, found):
    del found[random.randrange(len(found))]


def double_operation(random: Random, found):
    index = random.randrange(len(found))
    found.insert(random.randrange(len(found)), found[index])


def swap_operations(random: Random, found):
    a, b = random.randrange(len(found)), random.randrange(len(found))
    found[a], found[b] = found[b], found[a]


def put_in(random: Random, found):
    """A value in front of some operation: cyclic, deep, huge, or of another type."""
    depth = random.choice([10, 1000, 100000])
    cyclic_list = b"]q\xf0h\xf0a"
    cyclic_dict = b"}q\xf1X\1\0\0\0ah\xf1s"
    value = random.choice([
        cyclic_list, cyclic_dict, b"(" * depth + b"t" * depth, b"]" * depth + b"a" * (depth - 1), b")" + b"\x85" * depth, b"(" * depth,
        b"]" * depth, b"N", b"\x88", integer(2**63 - 1), b"G" + struct.pack(">d", float("nan")), b"}", b")", b"0", b"0" * 50, b".",
        b"\x8a\xff" + b"\x7f" * 255, b"X" + struct.pack("<I", 2**32 - 1), b"X" + struct.pack("<I", 2**28), text("x" * 1000000), b"Q", b"R",
        b"b", b"s", b"u", b"a", b"e"])
    found.insert(random.randrange(len(found)), value)


def change_program(random: Random, found):
    """The JSON of a fused program, or other JSON that stands in the pickle as a text."""
    texts = [index for index, part in enumerate(found) if is_text(part) and part[5:6] == b"{"]
    if not texts:
        return change_integer(random, found)
    index = random.choice(texts)
    _, changed = json_faults.any_fault(random, found[index][5:].decode())
    found[index] = text(changed)


FAULTS = [change_integer, change_integer, change_integer, change_text, change_name, change_memo, change_operation, drop_operation,
          double_operation, swap_operations, put_in, put_in]


def any_fault(random: Random, content: bytes, faults=None):
    found = parts(content)
    taken = random.choices(faults or FAULTS, k=random.choice([1, 1, 1, 2, 3]))
    for fault in taken:
        fault(random, found)
        if not found:
            break
    return "+".join(sorted({fault.__name__ for fault in taken})), b"".join(found)
