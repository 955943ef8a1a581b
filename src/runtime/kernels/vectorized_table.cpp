#include "runtime/kernels/vectorized_functions.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {

extern const KernelTable kKernels;
const KernelTable kKernels{.name = TSQ_RUNTIME_ISA_NAME,
                           .convert = convert,
                           .convert_tiles = convert_tiles,
                           .lookup = lookup,
                           .binary = binary,
                           .where = where,
                           .prelu = prelu,
                           .scale_shift = scale_shift,
                           .embed = embed,
                           .reduce = reduce,
                           .global_pool = global_pool,
                           .pool_windows = pool_windows,
                           .layer_norm = layer_norm,
                           .softmax = softmax,
                           .resize_nearest = resize_nearest,
                           .resize_bilinear = resize_bilinear};

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
