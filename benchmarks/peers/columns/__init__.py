"""The columns of the comparison: what each peer offers, in the order of the table."""
from columns import fx, libtorch, onnxruntime, openvino, pt2e, tsq
from columns.column import Column

COLUMNS: dict[str, Column] = {column.key: column for peer in (libtorch, fx, pt2e, onnxruntime, openvino, tsq) for column in peer.COLUMNS}
