#pragma once

#include "runtime/kernels/kernels.h"

/// The kernels of one instruction set, as KernelTable lists them.
namespace tsq::runtime::TSQ_RUNTIME_ISA {

void convert(const ConvertTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void convert_tiles(const ConvertTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void lookup(const LookupTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void binary(const BinaryTask&, void* out, const void* a, const void* b, std::int64_t begin, std::int64_t end);
void where(const WhereTask&, void* out, const void* condition, const void* a, const void* b,
           std::int64_t begin, std::int64_t end);
void prelu(const PreluTask&, void* out, const void* in, const void* slopes, std::int64_t begin,
           std::int64_t end);
void scale_shift(const ScaleShiftTask&, void* out, const void* in, const void* weight, const void* bias,
                 std::int64_t begin, std::int64_t end);
void embed(const EmbedTask&, void* out, const void* rows, std::int64_t begin, std::int64_t end);
void reduce(const ReduceTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void global_pool(const GlobalPoolTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void pool_windows(const PoolWindowsTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void layer_norm(const LayerNormTask&, void* out, void* rounded, const void* in, std::int64_t begin,
                std::int64_t end);
void softmax(const SoftmaxTask&, void* out, const void* in, std::int64_t begin, std::int64_t end);
void resize_nearest(const ResizeNearestTask&, void* out, const void* in, std::int64_t begin,
                    std::int64_t end);
void resize_bilinear(const ResizeBilinearTask&, void* out, const void* in, std::int64_t begin,
                     std::int64_t end);

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
