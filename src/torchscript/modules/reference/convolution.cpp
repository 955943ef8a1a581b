// The six convolutions.

#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {

const ReferenceKind reference_conv1d{.name = "Conv1d", .build = build_weighted, .read = read_weighted};

const ReferenceKind reference_conv2d{.name = "Conv2d", .build = build_weighted, .read = read_weighted};

const ReferenceKind reference_conv3d{.name = "Conv3d", .build = build_weighted, .read = read_weighted};

const ReferenceKind reference_conv_transpose1d{
    .name = "ConvTranspose1d", .build = build_weighted, .read = read_weighted};

const ReferenceKind reference_conv_transpose2d{
    .name = "ConvTranspose2d", .build = build_weighted, .read = read_weighted};

const ReferenceKind reference_conv_transpose3d{
    .name = "ConvTranspose3d", .build = build_weighted, .read = read_weighted};

}  // namespace tsq::torchscript
