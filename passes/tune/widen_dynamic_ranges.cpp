// Inputs that are quantized at run time use all 256 codes where the kernel is exact with them. PyTorch's
// dynamic modules use 128 on every engine.
//   quantized::linear_dynamic(x, packed, reduce_range=True)   becomes   …, reduce_range=False)

#include <algorithm>
#include <array>
#include <limits>

#include "backends/kernels/kernel_limits.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

struct RangeKernel {
  std::string_view name;
  int64_t dims;  ///< of the convolution; 0: a linear layer
};
constexpr std::array kDynamicKernels{
    RangeKernel{"quantized::linear_dynamic", 0}, RangeKernel{"quantized::linear_relu_dynamic", 0},
    RangeKernel{"quantized::conv1d_dynamic", 1}, RangeKernel{"quantized::conv2d_dynamic", 2},
    RangeKernel{"quantized::conv3d_dynamic", 3},
};

}  // namespace

bool widen_dynamic_ranges(ir::Model& model, const PassContext& context) {
  return change_nodes(model, [&](ir::Node* node) {
    const auto kernel =
        std::ranges::find(kDynamicKernels, std::string_view(node->kind().toQualString()), &RangeKernel::name);
    if (kernel == kDynamicKernels.end() || ir::flag_constant(node->inputs().back()) == false) return false;
    // A convolution's groups and channels are in its packed params: the worst case decides.
    const kernels::WeightedShape shape{
        .depthwise = kernel->dims > 0, .dims = kernel->dims, .channels = std::numeric_limits<int64_t>::max()};
    if (kernels::sums_pairs_in_16_bits(context.target, shape)) return false;
    node->replaceInput(node->inputs().size() - 1, ir::constant_before(node, false));
    return true;
  });
}

}  // namespace tsq::passes
