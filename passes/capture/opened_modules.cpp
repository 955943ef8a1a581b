#include "passes/capture/opened_modules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/origin.h"
#include "operators/weighted.h"
#include "passes/capture/leaf_modules.h"
#include "passes/context/names.h"
#include "torchscript/modules/attention_source.h"

namespace tsq::passes {
namespace {

bool is_made_of_layers(const Module& module, Symbol type) {
  constexpr std::array<std::string_view, 6> kComposites{
      "torch.nn.MultiheadAttention",      "torch.nn.Transformer",
      "torch.nn.TransformerEncoder",      "torch.nn.TransformerDecoder",
      "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"};
  const bool computes_weight = operators::is_weighted(type) && !module.hasattr("weight");
  return computes_weight || type.name.starts_with("torch.nn.utils.") ||
         std::ranges::find(kComposites, type.name) != kComposites.end();
}

/// Whether a scripted module says itself what it is made of: the code of tracing has no choices left.
bool has_choices(const Module& module, Symbol type) {
  return type.name == "torch.nn.TransformerEncoder"
             ? module.hasattr("use_nested_tensor")
             : module.hasattr("num_heads") || module.hasattr("norm_first");
}

bool holds_fused_attention(const ir::Block* block) {
  return std::ranges::any_of(block->nodes(), [](const Node* node) {
    const std::string_view kind = node->kind().toQualString();
    return kind == "aten::_transformer_encoder_layer_fwd" || kind == "aten::_native_multi_head_attention" ||
           std::ranges::any_of(node->blocks(), holds_fused_attention);
  });
}

/// The methods of torch.nn's composites have arguments with defaults; those that tracing writes have none. A
/// module with exported methods keeps its attributes when it is traced.
bool is_traced(const torch::jit::Method& method) {
  return std::ranges::none_of(method.function().getSchema().arguments(), [](const c10::Argument& argument) {
    return argument.default_value().has_value();
  });
}

}  // namespace

bool is_opened(const CaptureSource& source, const Module& module) {
  return source.looks_into_layers && !is_leaf_of_user(source, module) &&
         is_made_of_layers(module, class_symbol(module));
}

std::shared_ptr<ir::Graph> opened_graph(const Module& module, const std::string& method) {
  const Symbol type = class_symbol(module);
  const torch::jit::Method called = module.get_method(method);
  if (!is_traced(called)) {
    if (auto plain = torchscript::plain_forward(module, type)) return plain;
    // A scripted module without a plain form stays as it is.
    const bool is_attention =
        type.name == "torch.nn.MultiheadAttention" || type.name.starts_with("torch.nn.TransformerEncoder");
    if (is_attention && has_choices(module, type)) return nullptr;
  }
  return torch::jit::toGraphFunction(called.function()).graph();
}

std::optional<bool> branch_without_fused_attention(const Node* node) {
  if (node->kind() != c10::prim::If || ir::origin_of(node).writer != ir::Origin::Writer::Module)
    return std::nullopt;
  const bool then = holds_fused_attention(node->blocks()[0]);
  return then == holds_fused_attention(node->blocks()[1]) ? std::nullopt : std::optional(!then);
}

}  // namespace tsq::passes
