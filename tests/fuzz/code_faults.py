"""Faults of TorchScript code: names, numbers and lines changed, recursion without end, nesting without measure."""

import re
from random import Random

NUMBERS = ["0", "-1", "1", "2", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e400", "1000000000", "2147483648",
           "0.5", "None", "True", "[]", "\"x\"", "annotate(List[int], [])", "1099511627776"]
NAMES = ["relu", "conv2d", "linear", "svd", "zeros", "empty", "expand", "as_strided", "reshape", "view", "quantize_per_tensor", "dequantize",
         "cat", "stack", "embedding", "matmul", "bincount", "repeat", "eye", "_fft_c2c", "sort", "getattr", "print", "len", "max_pool2d",
         "adaptive_avg_pool2d", "unsqueeze", "permute", "index_select", "slice", "select", "Tensor", "forward", "self", "x", "ops"]
STATEMENTS = ["  while True:\n    pass\n", "  for i in range(1000000000000):\n    pass\n", "  _z = torch.zeros([100000, 100000, 100])\n",
              "  _z = torch.ones([30000, 30000])\n  _y = torch.add(_z, _z)\n", "  ops.prim.RaiseException(\"told\")\n",
              "  _a = annotate(List[int], [])\n  for i in range(10000000000):\n    _b = torch.append(_a, i)\n",
              "  _c = torch.as_strided(torch.ones([2]), [1000000], [1000000])\n  print(torch.sum(_c))\n",
              "  print(\"\x1b[31m\" + \"x\" * 100)\n", "  _i = torch.select(torch.ones([2]), 0, 99)\n", "  raise 7\n", "  return\n",
              "  _n = 1 // 0\n", "  _s = torch.mul(\"ab\", 9999999999)\n", "  assert False\n", "  _e = torch.embedding(torch.ones([2, 2]), "
              "torch.tensor([5000000000]))\n", "  _w = torch.index_put_(torch.ones([2]), [torch.tensor([-5000000000])], torch.ones([1]))\n"]


def change_number(random: Random, code: str) -> str:
    found = list(re.finditer(r"(?<![\w.])-?\d+(\.\d*)?([eE][-+]?\d+)?", code))
    if not found:
        return code
    place = random.choice(found)
    return code[: place.start()] + random.choice(NUMBERS) + code[place.end():]


def change_name(random: Random, code: str) -> str:
    found = list(re.finditer(r"[A-Za-z_]\w*", code))
    if not found:
        return code
    place = random.choice(found)
    other = random.choice([random.choice(NAMES), random.choice(found).group()])
    return code[: place.start()] + other + code[place.end():]


def lines_of(code: str):
    return code.splitlines(keepends=True)


def drop_line(random: Random, code: str) -> str:
    lines = lines_of(code)
    if lines:
        del lines[random.randrange(len(lines))]
    return "".join(lines)


def double_line(random: Random, code: str) -> str:
    lines = lines_of(code)
    if lines:
        index = random.randrange(len(lines))
        lines.insert(random.randrange(len(lines)), lines[index] * random.choice([1, 1, 1000]))
    return "".join(lines)


def indent_line(random: Random, code: str) -> str:
    lines = lines_of(code)
    if lines:
        index = random.randrange(len(lines))
        lines[index] = random.choice([lines[index].lstrip(" "), "  " + lines[index], "\t" + lines[index], " " * 100000 + lines[index]])
    return "".join(lines)


def body(random: Random, code: str):
    """A place right after the head of some function."""
    heads = list(re.finditer(r"def [^\n]*(\n    [^\n]*)*?:\n|def [^:]*\) -> [^:\n]*:\n", code))
    return random.choice(heads).end() if heads else len(code)


def put_statement(random: Random, code: str) -> str:
    place = body(random, code)
    return code[:place] + "  " + random.choice(STATEMENTS).replace("\n  ", "\n    ").replace("    pass", "      pass") + code[place:]


def recurse(random: Random, code: str) -> str:
    place = body(random, code)
    head = code[:place].rsplit("def ", 1)[-1]
    name = re.match(r"\w+", head)
    names = [n for n in re.findall(r"(\w+)\s*:", head.split("->")[0]) if n != "self"]
    call = f"(self).{name.group() if name else 'forward'}({', '.join(f'{n}, ' if False else n for n in names)}, )"
    return code[:place] + f"    _r = {call}\n" + code[place:]


def nest(random: Random, code: str) -> str:
    depth = random.choice([100, 10000, 100000])
    place = body(random, code)
    text = random.choice([
        f"    _p = {'(' * depth}1{')' * depth}\n", f"    _p = {'-' * depth}1\n", f"    _p = {'[' * depth}1{']' * depth}\n",
        f"    _p = {'not ' * depth}True\n", f"    _p = 1{' + 1' * depth}\n", f"    _p = torch.neg({'torch.neg(' * depth}x{')' * depth})\n",
        f"    _p = x{'.T' * depth}\n", f"    _p = {'1 if True else ' * depth}2\n", "    _p = [" + "1, " * depth + "]\n",
        "".join("    " + " " * i + "if True:\n" for i in range(min(depth, 2000))) + " " * 2100 + "    _p = 1\n",
        f"    _p = annotate({'List[' * depth}int{']' * depth}, [])\n", f"    _p : {'Optional[' * depth}int{']' * depth} = None\n",
        f"    _p = \"{'x' * depth}\"\n", f"    _p = \"{chr(92)}777{chr(92)}x\"\n", "    _p = " + "9" * depth + "\n", "".join(
            f"    _v{i} = torch.neg(x)\n" for i in range(min(depth, 20000)))])
    return code[:place] + text + code[place:]


def change_class(random: Random, code: str) -> str:
    """Attributes and bases of classes, which the file's pickle fills."""
    return random.choice([
        lambda: code.replace("class ", "class X", 1), lambda: re.sub(r" : Tensor", " : int", code, count=1),
        lambda: re.sub(r"__parameters__ = \[[^\]]*\]", "__parameters__ = [\"zz\", ]", code, count=1),
        lambda: re.sub(r"(\w+) : (__torch__[\w.]+)", r"\1 : __torch__.Missing", code, count=1),
        lambda: re.sub(r"\(Module\)", "(NamedTuple)", code, count=1), lambda: re.sub(r"\(Module\)", "(Interface)", code, count=1),
        lambda: code + code, lambda: re.sub(r"__torch__", "torch", code, count=1),
        lambda: re.sub(r"(  \w+ : )[\w.]+", r"\1List[Dict[str, Tuple[int, Optional[Tensor]]]]", code, count=1)])()


FAULTS = [change_number, change_number, change_name, change_name, drop_line, double_line, indent_line, put_statement, put_statement, recurse,
          nest, nest, change_class]


def any_fault(random: Random, code: str):
    taken = random.choices(FAULTS, k=random.choice([1, 1, 1, 2]))
    for fault in taken:
        code = fault(random, code)
    return "+".join(sorted({fault.__name__ for fault in taken})), code
