#include "modules/pack_when_loaded.h"

#include "modules/packed.h"
#include "modules/source_resolver.h"

namespace tsq::modules {
namespace {

using torch::jit::Module;

constexpr const char* kSource = R"(
def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], List[int], List[int], List[int], int, bool]:
    return (self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.training)

def __setstate__(self, state: Tuple[Tensor, Optional[Tensor], List[int], List[int], List[int], int, bool]):
    self.weight = state[0]
    self.bias = state[1]
    self.stride = state[2]
    self.padding = state[3]
    self.dilation = state[4]
    self.groups = state[5]
    self.training = state[6]
    self.packed = quantized.conv3d_prepack(state[0], state[1], state[2], state[3], state[4], state[5])
)";

}  // namespace

Module pack_when_loaded(std::string_view prepack, const ir::Weighted& weighted) {
  const bool own_padding = !pads_outside(weighted) && weighted.padding_name.empty();
  const std::vector<int64_t> padding =
      own_padding ? weighted.padding : std::vector<int64_t>(weighted.stride.size(), 0);
  const auto optional_tensor = c10::OptionalType::create(c10::TensorType::get());
  Module module("__torch__.tsq.PackedConv3d", std::make_shared<torch::jit::CompilationUnit>());
  module.register_attribute("packed", packed_type(prepack), pack(prepack, weighted));
  module.register_attribute("weight", c10::TensorType::get(), quantized_weight(weighted));
  module.register_attribute("bias", optional_tensor,
                            weighted.bias.defined() ? c10::IValue(weighted.bias.detach()) : c10::IValue());
  module.register_attribute("stride", c10::ListType::ofInts(), weighted.stride);
  module.register_attribute("padding", c10::ListType::ofInts(), padding);
  module.register_attribute("dilation", c10::ListType::ofInts(), weighted.dilation);
  module.register_attribute("groups", c10::IntType::get(), weighted.groups);
  module.register_attribute("training", c10::BoolType::get(), false);
  module.define(kSource, source_resolver());
  return module;
}

}  // namespace tsq::modules
