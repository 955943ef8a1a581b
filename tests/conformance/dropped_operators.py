"""What importing Python FX quantization leaves in the table that TorchScript looks builtins up in."""

from torch.jit import _builtins


def forget_dropped_operators() -> None:
    """To be called once, after the imports, by a program that scripts or traces models beside FX.

    The table's keys are ids. FX's import defines the overloads of quantized_decomposed.quantize_per_tensor one by one, and each definition
    drops an operator and leaves its id there. A list of paddings that is allocated at such an address is taken for the operator, and
    scripting fails: "builtin cannot be used as a value".
    """
    table = _builtins._get_builtin_table()
    for key in [key for key, name in table.items() if name.startswith("quantized_decomposed::")]:
        del table[key]
