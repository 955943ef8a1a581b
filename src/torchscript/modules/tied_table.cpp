#include "torchscript/modules/tied_table.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

/// A row is codes from 0 on, its scale and its smallest value, 8 bytes, which TorchScript cannot read as
/// numbers.
constexpr const char* kRows = R"(
def __getstate__(self) -> Tuple[Tensor, Tensor, Optional[Tensor], bool]:
    return (self.rows, self.scale, self.bias, self.training)

def __setstate__(self, state: Tuple[Tensor, Tensor, Optional[Tensor], bool]):
    self.rows = state[0]
    self.scale = state[1]
    self.bias = state[2]
    self.training = state[3]
    codes = state[0].narrow(1, 0, state[0].size(1) - 8).to(dtype=2).sub(128).to(dtype=1)
    zero_point = torch.zeros([state[1].numel()], dtype=4)
    weight = torch._make_per_channel_quantized_tensor(codes, state[1], zero_point, 0)
    self.packed = quantized.linear_prepack(weight, state[2])
)";

constexpr int64_t kBytesOfNumbers = 8;
constexpr int kSign = 0x80;

bool is_to_be_quantized(const ir::Model& model, const ir::Node* node, const ir::ModuleCall& call) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return call.embedding &&
         (call.embedding->weight_qparams || (qconfig != nullptr && match::weight_is_quantized(*qconfig)));
}

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

}  // namespace

bool is_quantized_table(const ir::Model& model, const at::Tensor& weight) {
  return std::ranges::any_of(ir::nodes_in_order(*model.graph), [&](const ir::Node* node) {
    if (!ir::is_module_call(node)) return false;
    const ir::ModuleCall& call = ir::call_of(model, node);
    return is_to_be_quantized(model, node, call) && is_same(call.embedding->weight, weight);
  });
}

bool are_symmetric_rows(const QParams& qparams) {
  return qparams.dtype == c10::ScalarType::QInt8 && qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE &&
         qparams.axis == 0 && !qparams.zero_point.any().item<bool>();
}

torch::jit::Module tied_linear(const TiedLinear& linear) {
  return written_module("tsq.TiedLinear",
                        {{"rows", c10::TensorType::get(), linear.rows},
                         {"scale", c10::TensorType::get(), linear.scale},
                         optional_tensor("bias", linear.bias),
                         {"training", c10::BoolType::get(), false},
                         {"packed", kernels::packed_type("quantized::linear_prepack"), linear.packed}},
                        kRows);
}

at::Tensor codes_of_rows(const at::Tensor& rows) {
  const at::Tensor codes = rows.narrow(1, 0, rows.size(1) - kBytesOfNumbers);
  return codes.bitwise_xor(kSign).contiguous().view(at::kChar);
}

}  // namespace tsq::torchscript
