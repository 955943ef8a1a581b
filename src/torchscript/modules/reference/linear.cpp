#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {

const ReferenceKind reference_linear{.name = "Linear", .build = build_weighted, .read = read_weighted};

}  // namespace tsq::torchscript
