// Entries of a mapping for attention of torch.nn, which recipe best takes apart: its module, its class and
// the names of the layers inside, in scripted files and in traced ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "support/small_models.h"

namespace tsq {
namespace attention_names_test {

using ::testing::IsEmpty;
using torch::jit::Module;

Module module_of_torch(const std::string& name) {
  Module module("__torch__.torch.nn.modules." + name, std::make_shared<torch::jit::CompilationUnit>(),
                /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

/// MultiheadAttention of 4 heads without its forward.
Module attention() {
  Module out = module_of_torch("linear.NonDynamicallyQuantizableLinear");
  out.register_parameter("weight", torch::randn({16, 16}) / 4, false);
  out.register_parameter("bias", torch::randn({16}), false);
  out.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  Module module = module_of_torch("activation.MultiheadAttention");
  module.register_parameter("in_proj_weight", torch::randn({48, 16}) / 4, false);
  module.register_parameter("in_proj_bias", torch::randn({48}), false);
  module.register_module("out_proj", out);
  return module;
}

constexpr const char* kFused =
    "torch._native_multi_head_attention(x, x, x, 16, 4, self.in_proj_weight, self.in_proj_bias, "
    "self.out_proj.weight, self.out_proj.bias, None, False, True, None)";

Module around(const Module& layer, const std::string& call) {
  Module model = testing::user_module("Around");
  model.register_module("first", testing::linear(16, 16));
  model.register_module("attn", layer);
  model.register_module("last", testing::linear(16, 16));
  model.define("def forward(self, x):\n  x = self.first.forward(x)\n  return self.last.forward(" + call +
               ")\n");
  return model;
}

Module traced() {
  Module layer = attention();
  layer.define(std::string("def forward(self, x):\n  return ") + kFused + "[0]\n");
  return around(layer, "self.attn.forward(x)");
}

Module scripted() {
  Module layer = attention();
  for (const char* name : {"bias_k", "bias_v"})
    layer.register_attribute(name, c10::NoneType::get(), c10::IValue());
  layer.register_attribute("add_zero_attn", c10::BoolType::get(), false);
  layer.register_attribute("batch_first", c10::BoolType::get(), true);
  layer.register_attribute("embed_dim", c10::IntType::get(), int64_t{16});
  layer.register_attribute("num_heads", c10::IntType::get(), int64_t{4});
  layer.define(std::string("def forward(self, x: Tensor, key: Tensor, value: Tensor, key_padding_mask: "
                           "Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] "
                           "= None, average_attn_weights: bool = True, is_causal: bool = False) -> "
                           "Tuple[Tensor, Optional[Tensor]]:\n  out, weights = ") +
               kFused + "\n  return out, weights\n");
  return around(layer, "self.attn.forward(x, x, x, None, False, None, True, False)[0]");
}

/// A TransformerEncoderLayer, of which tracing leaves one operator.
Module traced_encoder() {
  Module layer = module_of_torch("transformer.TransformerEncoderLayer");
  Module inner = attention();
  inner.define("def forward(self, x):\n  return x\n");
  layer.register_module("self_attn", inner);
  layer.register_module("linear1", testing::linear(16, 32));
  layer.register_module("linear2", testing::linear(32, 16));
  layer.register_module("norm1", testing::layer_norm(16));
  layer.register_module("norm2", testing::layer_norm(16));
  layer.define(
      "def forward(self, x):\n"
      "  return torch._transformer_encoder_layer_fwd(x, 16, 4, self.self_attn.in_proj_weight, "
      "self.self_attn.in_proj_bias, self.self_attn.out_proj.weight, self.self_attn.out_proj.bias, False, "
      "False, 1e-5, self.norm1.weight, self.norm1.bias, self.norm2.weight, self.norm2.bias, "
      "self.linear1.weight, self.linear1.bias, self.linear2.weight, self.linear2.bias, None, None)\n");
  return around(layer, "self.attn.forward(x)");
}

struct Case {
  std::string name;
  std::function<Module()> model;
  std::string attention;  ///< its path
};

class AttentionNames : public ::testing::TestWithParam<std::tuple<Case, QuantizeMode>> {
 protected:
  void SetUp() override {
    torch::manual_seed(21);
    const at::NoGradGuard no_grad;
    model_ = case_of().model();
  }

  [[nodiscard]] static const Case& case_of() { return std::get<0>(GetParam()); }
  [[nodiscard]] static QConfigMapping mapping() {
    return mode_qconfig_mapping(std::get<1>(GetParam()), Recipe::Best, "x86");
  }
  [[nodiscard]] Prepared prepared(const QConfigMapping& mapping) const {
    return prepare(model_, mapping, backend_config("x86"));
  }
  /// Names of linear layers that a mapping quantizes; each of its entries has to apply.
  [[nodiscard]] std::vector<std::string> quantized(const QConfigMapping& mapping) const {
    const Prepared prepared = this->prepared(mapping);
    EXPECT_THAT(prepared.report().unmatched_entries, IsEmpty());
    std::vector<std::string> names;
    for (const QuantizedLayer& layer : quantized_layers(prepared)) {
      if (layer.op.find("Linear") != std::string::npos || layer.op.find("linear") != std::string::npos)
        names.push_back(layer.name);
    }
    return names;
  }
  [[nodiscard]] std::vector<std::string> without(const std::string& path) const {
    std::vector<std::string> names = quantized(mapping());
    std::erase_if(names,
                  [&](const std::string& name) { return name == path || name.starts_with(path + "."); });
    return names;
  }
  [[nodiscard]] std::string in_attention(const std::string& name) const {
    return case_of().attention + "." + name;
  }

  Module model_;
};

INSTANTIATE_TEST_SUITE_P(
    Forms, AttentionNames,
    ::testing::Combine(::testing::Values(Case{"scripted", scripted, "attn"}, Case{"traced", traced, "attn"},
                                         Case{"encoder", traced_encoder, "attn.self_attn"}),
                       ::testing::Values(QuantizeMode::Static, QuantizeMode::Dynamic)),
    [](const auto& each) {
      return std::get<0>(each.param).name +
             (std::get<1>(each.param) == QuantizeMode::Static ? "_static" : "_dynamic");
    });

TEST_P(AttentionNames, AnEntryForTheModuleAppliesToAllInIt) {
  const std::string& path = case_of().attention;
  const std::vector<std::string> others = without(path);
  EXPECT_EQ(quantized(mapping()).size(), others.size() + 4);
  EXPECT_EQ(quantized(mapping().set_module_name(path, std::nullopt)), others);
  EXPECT_EQ(quantized(mapping().set_module_name_regex(path + "$", std::nullopt)), others);
  EXPECT_EQ(quantized(mapping().set_object_type("torch.nn.MultiheadAttention", std::nullopt)), others);
}

TEST_P(AttentionNames, EachLayerStaysFloatAloneByItsReportedName) {
  const std::vector<QuantizedLayer> layers = quantized_layers(prepared(mapping()));
  for (const QuantizedLayer& layer : layers) {
    std::vector<std::string> others = quantized(mapping());
    std::erase(others, layer.name);
    EXPECT_EQ(quantized(keep_float(mapping(), std::span(&layer, 1))), others) << layer.to_text();
  }
}

TEST_P(AttentionNames, ALayerIsNamedByARegexAndByItsOrderToo) {
  const std::vector<std::string> others = without(in_attention("linear_1"));
  EXPECT_EQ(quantized(mapping().set_module_name_regex(".*\\.linear_1", std::nullopt)), others);
  EXPECT_EQ(quantized(mapping().set_module_name_object_type_order(
                case_of().attention, symbol("torch.nn.Linear"), 1, std::nullopt)),
            others);
}

TEST_P(AttentionNames, TheLastLayerHasTheNameAndClassOfItsModule) {
  const std::vector<std::string> others = without(in_attention("out_proj"));
  EXPECT_EQ(quantized(mapping()).size(), others.size() + 1);
  EXPECT_EQ(quantized(mapping().set_module_name(in_attention("out_proj"), std::nullopt)), others);
  EXPECT_EQ(quantized(mapping().set_object_type("torch.nn.modules.linear.NonDynamicallyQuantizableLinear",
                                                std::nullopt)),
            others);
}

TEST(AttentionNamesOfEncoders, AnEntryForTheEncoderAppliesToWhatIsInIt) {
  torch::manual_seed(21);
  const at::NoGradGuard no_grad;
  const Module model = traced_encoder();
  const auto names = [&](const QConfigMapping& mapping) {
    const Prepared prepared = prepare(model, mapping, backend_config("x86"));
    EXPECT_THAT(prepared.report().unmatched_entries, IsEmpty());
    std::vector<std::string> result;
    for (const QuantizedLayer& layer : quantized_layers(prepared)) result.push_back(layer.name);
    return result;
  };
  const QConfigMapping best = best_dynamic_qconfig_mapping();
  EXPECT_EQ(names(best).size(), 8U);
  EXPECT_THAT(names(QConfigMapping(best).set_object_type("torch.nn.TransformerEncoderLayer", std::nullopt)),
              ::testing::ElementsAre("first", "last"));
  const auto others = names(QConfigMapping(best).set_module_name("attn.linear1", std::nullopt));
  EXPECT_EQ(others.size(), 7U);
  EXPECT_EQ(std::ranges::count(others, "attn.linear1"), 0);
  EXPECT_EQ(std::ranges::count(others, "attn.linear2"), 1);
}

}  // namespace attention_names_test
}  // namespace tsq
