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

constexpr std::array<std::string_view, 2> kDynamicKernels{"quantized::linear_dynamic",
                                                          "quantized::linear_relu_dynamic"};

}  // namespace

bool widen_dynamic_ranges(ir::Model& model, const PassContext& context) {
  return change_nodes(model, [&](ir::Node* node) {
    const bool is_dynamic =
        std::ranges::find(kDynamicKernels, std::string_view(node->kind().toQualString())) !=
        kDynamicKernels.end();
    if (!is_dynamic || ir::flag_constant(node->inputs().back()) == false) return false;
    // The channels of a layer are in its packed params: the worst case decides.
    const kernels::WeightedShape shape{.channels = std::numeric_limits<int64_t>::max()};
    if (kernels::pair_sums(context.target, shape) != kernels::PairSums::None) return false;
    node->replaceInput(node->inputs().size() - 1, ir::constant_before(node, false));
    return true;
  });
}

}  // namespace tsq::passes
