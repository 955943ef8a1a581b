#include "backends/backends.h"
#include "backends/rows.h"

namespace tsq {
namespace {

/// A convolution, alone or with its batch norm, whose output is one addend; the other is the fused module's
/// second input.
struct AddendSide {
  RootNodeGetter root;
  Pattern (*add)(Symbol op, Pattern conv);
};

Pattern add_left(Symbol op, Pattern conv) { return op(std::move(conv), match_all); }
Pattern add_right(Symbol op, Pattern conv) { return op(match_all, std::move(conv)); }

constexpr std::array kSides{AddendSide{RootNodeGetter::ConvLeft, add_left},
                            AddendSide{RootNodeGetter::ConvRight, add_right}};

BackendPatternConfig addition_row(Pattern pattern, Symbol fused, Fuser fuser, RootNodeGetter root) {
  return {.pattern_complex_format = std::move(pattern),
          .dtype_configs = {kWeightedInt8},
          .fused_module = fused,
          .fuser_method = fuser,
          .root_node_getter = root,
          .extra_inputs_getter = ExtraInputsGetter::OtherAddend};
}

// conv + Y, Y + conv, with and without batch norm, and then the same before a ReLU: one oneDNN primitive
// each.
Configs conv_add_rows() {
  const Pattern conv = nn::Conv2d;
  const Pattern conv_bn = nn::BatchNorm2d(nn::Conv2d);
  const auto alone = [](Pattern add) { return add; };
  const auto before_relu = [](Pattern add) { return nn::ReLU(std::move(add)); };
  Configs table;
  const auto add_rows = [&](const auto& whole, Symbol fused, Fuser with_bn, Fuser without_bn) {
    for (const AddendSide& side : kSides) {
      for (const Symbol& add : {fn::add, op::add})
        table.push_back(addition_row(whole(side.add(add, conv_bn)), fused, with_bn, side.root));
      for (const Symbol& add : {fn::add, op::add})
        table.push_back(addition_row(whole(side.add(add, conv)), fused, without_bn, side.root));
    }
    table.push_back({.pattern = fused,
                     .dtype_configs = {kWeightedInt8},
                     .root_module = nn::Conv2d,
                     .reference_quantized_module = nnqr::Conv2d});
  };
  add_rows(alone, nni::ConvAdd2d, Fuser::ConvBnAdd, Fuser::ConvAdd);
  add_rows(before_relu, nni::ConvAddReLU2d, Fuser::ConvBnAddReLU, Fuser::ConvAddReLU);
  return table;
}

// Linear with the activations that oneDNN applies in the same primitive.
Configs linear_post_op_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = chain({nn::Linear, nn::LeakyReLU}),
           .fused = nni::LinearLeakyReLU,
           .fuser = Fuser::Sequential},
          {.pattern = chain({nn::Linear, F::leaky_relu}),
           .fused = nni::LinearLeakyReLU,
           .fuser = Fuser::Sequential},
          {.pattern = nni::LinearLeakyReLU, .root = nn::Linear, .reference = nnqr::Linear},
          {.pattern = chain({F::linear, nn::LeakyReLU})},
          {.pattern = chain({F::linear, F::leaky_relu})},
          {.pattern = chain({nn::Linear, nn::BatchNorm1d, nn::LeakyReLU}),
           .fused = nni::LinearLeakyReLU,
           .fuser = Fuser::LinearBnLeakyReLU},
          {.pattern = chain({nn::Linear, nn::Tanh}), .fused = nni::LinearTanh, .fuser = Fuser::Sequential},
          {.pattern = chain({nn::Linear, fn::tanh}), .fused = nni::LinearTanh, .fuser = Fuser::Sequential},
          {.pattern = nni::LinearTanh, .root = nn::Linear, .reference = nnqr::Linear},
          {.pattern = chain({F::linear, nn::Tanh})},
          {.pattern = chain({F::linear, fn::tanh})},
      },
      kOwnObserver, dtypes);
}

}  // namespace

// Source: torch/ao/quantization/backend_config/onednn.py.
BackendConfig onednn_backend_config() {
  const DTypes linear{kWeightedInt8, kDynamicInt8};
  return cpu_backend_config("onednn", {.after_conv = conv_add_rows(),
                                       .linear = linear,
                                       .after_linear = linear_post_op_rows(linear),
                                       .has_tensor_info = false,
                                       .has_layer_norm = true,
                                       .rnn = {kDynamicInt8},
                                       .embedding = {kWeightOnlyQInt8}});
}

}  // namespace tsq
