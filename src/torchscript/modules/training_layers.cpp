#include "torchscript/modules/training_layers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/compilation_unit.h>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "operators/images/convolution_padding.h"
#include "operators/inlined_graph.h"
#include "operators/weighted.h"
#include "torchscript/modules/operators_apart.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

constexpr const char* kFakeQuantize = "weight_fake_quant";

std::string ints(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

/// The operator on `input`, a weight and a bias, as text.
std::string operation(const ir::Weighted& w, bool is_transposed, const std::string& weight,
                      const std::string& bias) {
  if (w.stride.empty()) return fmt::format("torch.linear(input, {}, {})", weight, bias);
  if (is_transposed) {
    return fmt::format("torch.conv_transpose{}d(input, {}, {}, {}, {}, {}, {}, {})", w.stride.size(), weight,
                       bias, ints(w.stride), ints(w.padding), ints(w.output_padding), w.groups,
                       ints(w.dilation));
  }
  const auto convolution = [&](const std::string& input, const std::string& padding) {
    return fmt::format("torch.conv{}d({}, {}, {}, {}, {}, {}, {})", w.stride.size(), input, weight, bias,
                       ints(w.stride), padding, ints(w.dilation), w.groups);
  };
  if (w.padding_mode != "zeros") {
    return convolution(fmt::format("torch.pad(input, {}, \"{}\", None)", ints(operators::explicit_padding(w)),
                                   w.padding_mode),
                       ints(std::vector<int64_t>(w.stride.size(), 0)));
  }
  if (!w.padding_name.empty()) return convolution("input", fmt::format("\"{}\"", w.padding_name));
  return convolution("input", ints(w.padding));
}

/// torch/ao/nn/intrinsic/qat/modules/conv_fused.py, _forward_approximate, and linear_fused.py, forward: the
/// same operations in the same order.
std::string source_of(const ir::Weighted& w, bool is_transposed) {
  const auto rank = static_cast<std::size_t>(w.weight.dim());
  std::vector<int64_t> of_weight(rank, 1);
  std::vector<int64_t> of_bias(rank, 1);
  const std::size_t outputs = is_transposed ? 1 : 0;
  of_weight[outputs] = -1;
  of_bias[1] = -1;
  const bool has_bias = w.bias.defined();
  const std::string zero_bias =
      has_bias ? "torch.zeros_like(self.bias)"
               : fmt::format("torch.zeros([{}], dtype=input.dtype, device=scaled_weight.device)",
                             w.weight.size(static_cast<int64_t>(outputs)));
  const std::string add_bias =
      has_bias ? fmt::format("    original = original + self.bias.reshape({})\n", ints(of_bias)) : "";
  const std::string forward = fmt::format(
      R"(
def forward(self, input: Tensor) -> Tensor:
    return {}
)",
      operation(w, is_transposed, "self.weight_fake_quant.forward(self.weight)",
                has_bias ? "self.bias" : "None"));
  return forward + fmt::format(R"(
def forward_scaled(self, input: Tensor, gamma: Tensor, running_var: Tensor, eps: float) -> Tensor:
    running_std = torch.sqrt(running_var + eps)
    scale_factor = gamma / running_std
    scale_factor = scale_factor.masked_fill(scale_factor == 0, 1)
    scaled_weight = self.weight_fake_quant.forward(self.weight * scale_factor.reshape({}))
    zero_bias = {}
    scaled = {}
    original = scaled / scale_factor.reshape({})
{}    return original
)",
                               ints(of_weight), zero_bias,
                               operation(w, is_transposed, "scaled_weight", "zero_bias"), ints(of_bias),
                               add_bias);
}

/// torch/nn/modules/batchnorm.py, forward. Without a momentum the average is cumulative.
std::string batch_norm_source(bool is_cumulative) {
  const std::string factor = is_cumulative ? "0.0" : "self.momentum";
  const std::string of_batch =
      is_cumulative ? "        factor = 1.0 / float(self.num_batches_tracked)\n" : "";
  return fmt::format(R"(
def forward(self, input: Tensor) -> Tensor:
    factor = {}
    uses_batch = self.training and not self.freeze_bn
    if uses_batch:
        self.num_batches_tracked.add_(1)
{}        values = input.numel() // input.size(1)
        assert values > 1, "Expected more than 1 value per channel when training"
    return torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, uses_batch,
                            factor, self.eps, True)

def freeze_bn_stats(self) -> None:
    self.freeze_bn = True

def update_bn_stats(self) -> None:
    self.freeze_bn = False
)",
                     factor, of_batch);
}

/// Every read of `weight` becomes the rounded one, which is computed once, at the beginning.
void round_weight(ir::Graph& graph, const Module& module, const Module& fake_quantize) {
  ir::Value* self = graph.inputs().at(0);
  self->setType(module.type());
  std::vector<ir::Node*> reads;
  for (ir::Node* node : ir::nodes_in_order(graph)) {
    if (node->kind() == c10::prim::GetAttr && node->input(0) == self && node->s(c10::attr::name) == "weight")
      reads.push_back(node);
  }
  if (reads.empty()) return;
  ir::Node* first = *graph.nodes().begin();
  ir::Value* weight = ir::read_attribute(first, self, "weight", c10::TensorType::get());
  ir::Value* rounder = ir::read_attribute(first, self, kFakeQuantize, fake_quantize.type());
  ir::Node* rounded = ir::insert_node(first, c10::prim::CallMethod, {rounder, weight});
  rounded->s_(c10::attr::name, "forward");
  for (ir::Node* node : reads) {
    node->output()->replaceAllUsesWith(rounded->output());
    node->destroy();
  }
}

}  // namespace

bool is_training_class(Symbol type) {
  return type.name.starts_with("torch.ao.nn.qat.") || type.name.starts_with("torch.ao.nn.intrinsic.qat.");
}

bool is_training_layer(const ir::Model& model, const ir::ModuleCall& call) {
  return model.trained_qconfigs.contains(call.path) && weight_to_round(call).defined();
}

at::Tensor weight_to_round(const ir::ModuleCall& call) {
  if (call.embedding) return call.embedding->weight;
  if (const ir::Weighted* weighted = ir::weighted_of(call)) return weighted->weight;
  return call.type.name == "torch.nn.PReLU" && call.module ? call.module->attr("weight").toTensor()
                                                           : at::Tensor();
}

Module TrainingLayers::instance(const std::string& name, const std::vector<Attribute>& attributes,
                                const std::string& source) {
  // Instances of one source differ in the class of a child alone, which is the last attribute.
  Class& made = classes_[{name + source, attributes.back().type.get()}];
  if (!made.type) {
    made.unit = std::make_shared<torch::jit::CompilationUnit>();
    Module prototype(c10::QualifiedName("__torch__." + name), made.unit);
    made.type = prototype.type();
    for (const Attribute& each : attributes)
      made.type->addAttribute(each.name, each.type, each.is_parameter, each.is_buffer);
    prototype.define(source);
    for (const torch::jit::Method& method : prototype.get_methods()) keep_operators_apart(*method.graph());
  }
  Module module(made.unit, made.type);
  for (const Attribute& each : attributes) module.setattr(each.name, each.value);
  return module;
}

Module TrainingLayers::weighted(const ir::Weighted& weighted, Symbol type, const Module& fake_quantize) {
  std::vector<Attribute> attributes{parameter("weight", weighted.weight)};
  if (weighted.bias.defined()) attributes.push_back(parameter("bias", weighted.bias));
  attributes.push_back({"training", c10::BoolType::get(), true});
  attributes.push_back({kFakeQuantize, fake_quantize.type(), fake_quantize._ivalue()});
  return instance("torch.ao.nn.qat." + class_name(type), attributes,
                  source_of(weighted, operators::is_transposed(type)));
}

Module TrainingLayers::reading_rounded(const Module& leaf, const Module& fake_quantize) {
  const auto name = leaf.type()->name();
  Module made(c10::QualifiedName("__torch__.torch.ao.nn.qat." + (name ? name->name() : "Module")),
              std::make_shared<torch::jit::CompilationUnit>());
  const auto type = leaf.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i)
    made.register_attribute(type->getAttributeName(i), type->getAttribute(i),
                            leaf.attr(type->getAttributeName(i)), type->is_parameter(i), type->is_buffer(i));
  made.register_module(kFakeQuantize, fake_quantize);
  for (const torch::jit::Method& method : leaf.get_methods()) {
    const auto graph = operators::inlined_graph(leaf, method.name());
    round_weight(*graph, made, fake_quantize);
    ir::define_method(made, method.name(), graph, method.function().getSchema());
  }
  return made;
}

Module TrainingLayers::batch_norm(const Module& batch_norm, Symbol type) {
  const operators::BatchNorm parameters = *operators::batch_norm_parameters(batch_norm);
  const auto momentum = operators::module_constant(batch_norm, "momentum", c10::aten::batch_norm, "momentum");
  const bool is_cumulative = !momentum || momentum->isNone();
  const c10::IValue counter = batch_norm.attr("num_batches_tracked", c10::IValue());
  std::vector<Attribute> attributes{
      parameter("weight", parameters.weight),
      parameter("bias", parameters.bias),
      buffer("running_mean", parameters.running_mean),
      buffer("running_var", parameters.running_var),
      buffer("num_batches_tracked", counter.isTensor() ? counter.toTensor() : at::zeros({}, at::kLong)),
      {"eps", c10::FloatType::get(), parameters.eps},
      {"freeze_bn", c10::BoolType::get(), false}};
  if (!is_cumulative)
    attributes.push_back({"momentum", c10::FloatType::get(), momentum->toScalar().toDouble()});
  attributes.push_back({"training", c10::BoolType::get(), true});
  return instance(std::string(type.name), attributes, batch_norm_source(is_cumulative));
}

}  // namespace tsq::torchscript
