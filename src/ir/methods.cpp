#include "ir/methods.h"

namespace tsq::ir {

const c10::Symbol kForwardKind = c10::Symbol::fromQualString("prim::tsq_forward");

bool is_forward_call(const Node* node) { return node->kind() == kForwardKind; }

}  // namespace tsq::ir
