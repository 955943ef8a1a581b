// dequantize – operator – quantize → one kernel of the engine
// (torch/ao/quantization/fx/_lower_to_native_backend.py).
//   quantize(conv(dequantize(x)))   →   quantized::conv2d(x, packed, scale, zero_point)

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backends/lowering_table.h"
#include "modules/packed.h"
#include "modules/weighted.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using lowering::PostOp;

const c10::Symbol kQuantize = c10::Symbol::fromQualString("aten::quantize_per_tensor");
const c10::Symbol kQuantizePerChannel = c10::Symbol::fromQualString("aten::quantize_per_channel");
const c10::Symbol kDequantize = c10::Symbol::fromQualString("aten::dequantize");

bool is_dequantize(const Value* value) { return value->node()->kind() == kDequantize; }

/// A constant, also one spelt as a list of constants.
std::optional<c10::IValue> constant_value(const Value* value) {
  if (value->node()->kind() != c10::prim::ListConstruct) return torch::jit::toIValue(value);
  std::vector<int64_t> list;
  for (const Value* element : value->node()->inputs()) {
    const auto constant = torch::jit::toIValue(element);
    if (!constant || !constant->isInt()) return std::nullopt;
    list.push_back(constant->toInt());
  }
  return list;
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

class Lowering {
 public:
  Lowering(GraphModule& gm, Report& report) : gm_(gm), report_(report) {}

  void run() {
    lower_each([this](Node* q, Node* relu, Node* op) { return lower_weighted_module(q, relu, op); });
    lower_each([this](Node* q, Node* relu, Node* op) { return lower_weighted_functional(q, relu, op); });
    lower_each([this](Node* q, Node* relu, Node* op) { return lower_binary(q, relu, op); });
    read_shapes_of_quantized();
    lower_each([this](Node* q, Node* relu, Node* op) { return relu == nullptr && lower_unary(q, op); });
    pack_weights();
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// A weight to pack and the attribute that gets it.
  struct Packing {
    ir::Weighted weighted;
    std::string prepack;
    std::string name;
    std::string layer;
    c10::IValue result;
  };

  /// Offers each quantize node with what it quantizes: the operator, and a ReLU between the two when there is
  /// one. Graph order.
  template <typename Rule>
  void lower_each(const Rule& rule) {
    for (Node* q : ir::nodes_in_order(*gm_.graph)) {
      if (q->kind() != kQuantize) continue;
      Node* producer = q->input(0)->node();
      if (producer->outputs().size() != 1 || producer->output()->uses().size() != 1) continue;
      if (rule(q, nullptr, producer) || !is_relu(producer)) continue;
      Node* op = ir::operands(producer).front()->node();
      if (op->outputs().size() == 1 && op->output()->uses().size() == 1) rule(q, producer, op);
    }
  }

  bool has_target(const Node* node, std::initializer_list<std::string_view> names) const {
    for (const Symbol& target : ir::targets(gm_, node)) {
      if (std::find(names.begin(), names.end(), target.name) != names.end()) return true;
    }
    return false;
  }

  bool is_relu(const Node* node) const {
    return has_target(node, {"torch.nn.ReLU", "torch.nn.functional.relu", "torch.relu"});
  }

  /// L-05: an operator that is configured not to be quantized stays.
  bool is_configured_float(const Node* node) const {
    const ir::NodeState* state = ir::state_of(gm_, node);
    return state != nullptr && !state->qconfig;
  }

  /// Puts `kernel` in place of operator, ReLU and quantize.
  void replace(Node* q, Node* op, std::string_view kernel, std::vector<Value*> inputs) {
    const auto dot = kernel.find('.');
    const std::string kind(kernel.substr(0, dot));
    Node* made = gm_.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
    made->insertBefore(q);
    made->setSourceRange(op->sourceRange());
    ir::take_scope(made, op);
    finish(q, op, made->output(), kind);
  }

  void finish(Node* q, Node* op, Value* result, const std::string& kernel) {
    report_kernel(op, kernel);
    q->output()->replaceAllUsesWith(result);
    q->destroy();
  }

  void report_kernel(const Node* op, const std::string& kernel) {
    if (op->outputs().empty()) return;
    for (Decision& decision : report_.decisions) {
      if (decision.node == op->output()->debugName()) decision.kernel = kernel;
    }
  }

  Value* attribute_of(const c10::IValue& value, const std::string& name, Node* before) {
    const torch::jit::WithInsertPoint guard(before);
    return ir::insert_attribute(gm_, name, value, value.type());
  }

  Value* constant(const c10::IValue& value, Node* before) {
    const torch::jit::WithInsertPoint guard(before);
    return gm_.graph->insertConstant(value);
  }

  /// One packing per weight and qparams: calls of one module share it.
  Value* packed(const ir::Weighted& weighted, std::string_view prepack, const std::string& path,
                Node* before) {
    const auto key = fmt::format(
        "{} {} {} {} {} {} {} {} {}", fmt::ptr(weighted.weight.unsafeGetTensorImpl()),
        fmt::ptr(weighted.bias.unsafeGetTensorImpl()), prepack, fmt::join(weighted.stride, ","),
        fmt::join(weighted.padding, ","), weighted.padding_name, fmt::join(weighted.dilation, ","),
        weighted.groups, bytes_of(weighted.weight_qparams->scale));
    auto found = packed_names_.find(key);
    if (found == packed_names_.end()) {
      const std::string name = unique_packed_name(path);
      found = packed_names_.emplace(key, name).first;
      to_pack_.push_back(
          {.weighted = weighted, .prepack = std::string(prepack), .name = name, .layer = path, .result = {}});
    }
    Node* node = gm_.graph->create(c10::prim::GetAttr, {gm_.graph->inputs().at(0)}, 1);
    node->s_(c10::attr::name, found->second);
    node->output()->setType(modules::packed_type(prepack));
    node->insertBefore(before);
    return node->output();
  }

  std::string unique_packed_name(const std::string& path) const {
    const std::string base = ir::unique_attribute_name(gm_, path + "_packed_params");
    std::string name = base;
    for (int i = 1;
         std::any_of(to_pack_.begin(), to_pack_.end(), [&](const Packing& p) { return p.name == name; });
         ++i) {
      name = fmt::format("{}_{}", base, i);
    }
    return name;
  }

  /// Weights are independent of each other: they are packed side by side.
  void pack_weights() {
    at::parallel_for(0, static_cast<int64_t>(to_pack_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Packing& packing = to_pack_[static_cast<std::size_t>(i)];
        try {
          packing.result = modules::pack(packing.prepack, packing.weighted);
        } catch (const Error& error) {
          throw Error(error.code(), error.problem(), error.remedy(), Where{.layer = packing.layer});
        }
      }
    });
    for (const Packing& packing : to_pack_)
      gm_.attributes.register_attribute(packing.name, packing.result.type(), packing.result);
  }

  // L-02, L-08, and transposed convolutions of L-15.
  bool lower_weighted_module(Node* q, Node* relu, Node* op) {
    if (!ir::is_module_call(op) || is_configured_float(op)) return false;
    const ir::ModuleCall& call = ir::call_of(gm_, op);
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams ||
        weighted->weight_qparams->dtype != c10::ScalarType::QInt8)
      return false;
    if (!std::all_of(op->inputs().begin(), op->inputs().end(), is_dequantize)) return false;
    PostOp post_op = call.members.empty() ? PostOp::None : lowering::post_op_of(call.type.name);
    if (!call.members.empty() && post_op == PostOp::None) return false;
    if (relu != nullptr) {
      // FX drops this ReLU (L-03); the kernel with ReLU is the one that is meant.
      if (post_op != PostOp::None) return false;
      post_op = PostOp::ReLU;
    }
    const Symbol root = call.members.empty() ? call.type : call.members.front().type;
    const lowering::WeightedKernel* row = lowering::weighted_kernel(root.name, post_op);
    if (row == nullptr) return false;
    std::vector<Value*> inputs{padded(*weighted, op->input(0)->node()->input(0), op)};
    if (op->inputs().size() == 2) inputs.push_back(op->input(1)->node()->input(0));
    inputs.push_back(packed(*weighted, row->prepack, call.path, q));
    inputs.push_back(q->input(1));
    inputs.push_back(q->input(2));
    if (post_op == PostOp::LeakyReLU) inputs.push_back(constant(negative_slope(call.members.back()), q));
    replace(q, op, row->kernel, inputs);
    return true;
  }

  static double negative_slope(const ir::ModuleCall& leaky_relu) {
    if (!leaky_relu.constants.empty()) return leaky_relu.constants.front().toDouble();
    const auto slope = leaky_relu.module ? modules::module_constant(*leaky_relu.module, "negative_slope",
                                                                    c10::aten::leaky_relu, "negative_slope")
                                         : std::nullopt;
    return slope ? slope->toDouble() : 0.01;
  }

  Value* insert(Node* before, const char* kind, std::vector<Value*> inputs) {
    Node* node = gm_.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
    node->insertBefore(before);
    return node->output();
  }

  /// What the kernel reads when the padding is not its own: the quantized tensor, padded.
  Value* padded(const ir::Weighted& weighted, Value* input, Node* before) {
    if (!modules::pads_outside(weighted)) return input;
    const std::string mode = weighted.padding_mode == "zeros" ? "constant" : weighted.padding_mode;
    Value* padding = constant(modules::explicit_padding(weighted), before);
    Value* none = constant(c10::IValue(), before);
    if (mode == "reflect") return insert(before, "aten::pad", {input, padding, constant(mode, before), none});
    // The other modes have no kernel for quantized tensors. Padding copies values, so nothing is lost on the
    // way through float.
    Value* as_float =
        insert(before, "aten::pad",
               {insert(before, "aten::dequantize", {input}), padding, constant(mode, before), none});
    Value* scale = insert(before, "aten::q_scale", {input});
    scale->setType(c10::FloatType::get());
    Value* zero_point = insert(before, "aten::q_zero_point", {input});
    zero_point->setType(c10::IntType::get());
    return insert(
        before, "aten::quantize_per_tensor",
        {as_float, scale, zero_point, constant(static_cast<int64_t>(c10::ScalarType::QUInt8), before)});
  }

  // L-06, L-07.
  bool lower_weighted_functional(Node* q, Node* relu, Node* op) {
    const lowering::WeightedKernel* row =
        functional_kernel(op, relu == nullptr ? PostOp::None : PostOp::ReLU);
    if (row == nullptr || is_configured_float(op) || op->inputs().size() < 2) return false;
    if (!is_dequantize(op->input(0)) || !is_dequantize(op->input(1))) return false;
    const auto weighted = functional_parameters(op);
    if (!weighted) return false;
    replace(q, op, row->kernel,
            {op->input(0)->node()->input(0), packed(*weighted, row->prepack, ir::scope_of(gm_, op).path, q),
             q->input(1), q->input(2)});
    return true;
  }

  const lowering::WeightedKernel* functional_kernel(const Node* op, PostOp post_op) const {
    static const std::map<std::string_view, std::string_view> kModules{
        {"torch.nn.functional.linear", "torch.nn.Linear"},
        {"torch.nn.functional.conv1d", "torch.nn.Conv1d"},
        {"torch.nn.functional.conv2d", "torch.nn.Conv2d"},
        {"torch.nn.functional.conv3d", "torch.nn.Conv3d"},
        {"torch.nn.functional.conv_transpose1d", "torch.nn.ConvTranspose1d"},
        {"torch.nn.functional.conv_transpose2d", "torch.nn.ConvTranspose2d"},
        {"torch.nn.functional.conv_transpose3d", "torch.nn.ConvTranspose3d"},
    };
    for (const Symbol& target : ir::targets(gm_, op)) {
      if (const auto found = kModules.find(target.name); found != kModules.end())
        return lowering::weighted_kernel(found->second, post_op);
    }
    return nullptr;
  }

  std::optional<at::Tensor> attribute_tensor(const Value* value) const {
    if (value->node()->kind() == c10::prim::GetAttr && value->node()->input(0) == gm_.graph->inputs().at(0)) {
      const c10::IValue attribute = gm_.attributes.attr(value->node()->s(c10::attr::name));
      if (attribute.isTensor()) return attribute.toTensor().detach();
    }
    const auto constant = torch::jit::toIValue(value);
    if (constant && constant->isTensor()) return constant->toTensor().detach();
    return std::nullopt;
  }

  /// Weight and arguments of F.linear / F.conv*, when all of them are known now.
  std::optional<ir::Weighted> functional_parameters(const Node* op) const {
    ir::Weighted result;
    const Node* quantize = op->input(1)->node()->input(0)->node();
    const auto weight = quantize->inputs().empty() ? std::nullopt : attribute_tensor(quantize->input(0));
    const auto dtype =
        quantize->inputs().empty() ? std::nullopt : torch::jit::toIValue(quantize->inputs().back());
    if (!weight || !dtype) return std::nullopt;
    result.weight = *weight;
    QParams qparams{.dtype = static_cast<c10::ScalarType>(dtype->toInt())};
    if (quantize->kind() == kQuantize) {
      qparams.scale = at::scalar_tensor(constant_value(quantize->input(1))->toDouble(), at::kFloat);
      qparams.zero_point = at::scalar_tensor(constant_value(quantize->input(2))->toInt(), at::kLong);
    } else if (quantize->kind() == kQuantizePerChannel) {
      qparams.qscheme = c10::QScheme::PER_CHANNEL_AFFINE;
      qparams.scale = *attribute_tensor(quantize->input(1));
      qparams.zero_point = *attribute_tensor(quantize->input(2));
      qparams.axis = constant_value(quantize->input(3))->toInt();
    } else {
      return std::nullopt;
    }
    result.weight_qparams = qparams;
    if (op->inputs().size() > 2 && !op->input(2)->mustBeNone()) {
      const auto bias = attribute_tensor(op->input(2));
      if (!bias) return std::nullopt;
      result.bias = *bias;
    }
    if (op->inputs().size() <= 3) return result;
    return with_geometry(op, std::move(result));
  }

  static std::optional<ir::Weighted> with_geometry(const Node* op, ir::Weighted result) {
    const c10::FunctionSchema* schema = op->maybeSchema();
    if (schema == nullptr) return std::nullopt;
    const auto argument = [&](const char* name) -> std::optional<c10::IValue> {
      const auto index = schema->argumentIndexWithName(name);
      return index ? constant_value(op->input(static_cast<std::size_t>(*index))) : std::nullopt;
    };
    const auto stride = argument("stride");
    const auto padding = argument("padding");
    const auto dilation = argument("dilation");
    const auto groups = argument("groups");
    if (!stride || !padding || !padding->isIntList() || !dilation || !groups) return std::nullopt;
    result.stride = stride->toIntVector();
    result.padding = padding->toIntVector();
    result.dilation = dilation->toIntVector();
    result.groups = groups->toInt();
    const auto output_padding = argument("output_padding");
    result.output_padding =
        output_padding ? output_padding->toIntVector() : std::vector<int64_t>(result.stride.size(), 0);
    return result;
  }

  // L-13, L-14.
  bool lower_binary(Node* q, Node* relu, Node* op) {
    const lowering::BinaryKernel* row = nullptr;
    for (const Symbol& target : ir::targets(gm_, op)) {
      if (row == nullptr) row = lowering::binary_kernel(target.name);
    }
    if (row == nullptr || is_configured_float(op) || op->inputs().size() < 2) return false;
    const std::string_view kernel = relu == nullptr ? row->kernel : row->relu_kernel;
    if (kernel.empty() || !has_unit_alpha(op)) return false;
    Value* left = op->input(0);
    Value* right = op->input(1);
    if (is_dequantize(left) && is_dequantize(right)) {
      replace(q, op, kernel, {left->node()->input(0), right->node()->input(0), q->input(1), q->input(2)});
      return true;
    }
    // With a number the result's range follows from the input's and the number; the kernel works it out.
    if (is_dequantize(left) && ir::is_constant(right) && !ir::holds_tensor(right)) {
      replace(q, op, kernel, {left->node()->input(0), right});
      return true;
    }
    return false;
  }

  /// The kernels have no alpha: add(x, y, alpha=2) stays as it is (FX drops the alpha).
  static bool has_unit_alpha(const Node* op) {
    if (op->kind() != c10::aten::add || op->inputs().size() < 3) return true;
    const auto alpha = torch::jit::toIValue(op->input(2));
    return alpha && alpha->isInt() && alpha->toInt() == 1;
  }

  /// Sizes are the same before dequantize.
  void read_shapes_of_quantized() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      const bool asks_shape = node->kind() == c10::aten::size || node->kind() == c10::aten::dim;
      if (asks_shape && is_dequantize(node->input(0)))
        node->replaceInput(0, node->input(0)->node()->input(0));
    }
  }

  // L-15, L-16.
  bool lower_unary(Node* q, Node* op) {
    const lowering::UnaryKernel* row = nullptr;
    for (const Symbol& target : ir::targets(gm_, op)) {
      if (row == nullptr) row = lowering::unary_kernel(target);
    }
    const auto arguments = ir::arguments(op);
    if (row == nullptr || arguments.empty()) return false;
    const std::vector<Value*> reads =
        arguments[0].is_list ? arguments[0].elements : std::vector<Value*>{arguments[0].value};
    if (reads.empty() || !std::all_of(reads.begin(), reads.end(), is_dequantize)) return false;
    switch (row->how) {
      case lowering::Unary::SameOp:
        for (Value* value : reads) ir::replace_operand(op, value, value->node()->input(0));
        if (op->kind() == c10::aten::view) op = as_reshape(op);
        finish(q, op, op->output(), "the same operator on the quantized tensor");
        return true;
      case lowering::Unary::Identity:
        finish(q, op, reads.front()->node()->input(0), "nothing");
        return true;
      case lowering::Unary::Kernel: {
        const auto inputs = kernel_inputs(row->kernel, q, op);
        if (!inputs) return false;
        replace(q, op, row->kernel, *inputs);
        return true;
      }
    }
    return false;
  }

  /// Quantized convolutions return channels-last tensors, which view refuses.
  Node* as_reshape(Node* view) {
    Node* made = gm_.graph->create(c10::aten::reshape, view->inputs(), 1);
    made->insertBefore(view);
    made->output()->copyMetadata(view->output());
    ir::take_scope(made, view);
    view->output()->replaceAllUsesWith(made->output());
    view->destroy();
    return made;
  }

  /// Arguments of a kernel out of a module's parameters or a function's arguments; empty when they cannot be
  /// told.
  std::optional<std::vector<Value*>> kernel_inputs(std::string_view kernel, Node* q, Node* op) {
    Value* input = ir::operands(op).front()->node()->input(0);
    Value* scale = q->input(1);
    Value* zero_point = q->input(2);
    const auto at_end = [&](std::vector<Value*> inputs) {
      inputs.push_back(scale);
      inputs.push_back(zero_point);
      return inputs;
    };
    if (kernel == "quantized::hardswish") return at_end({input});
    if (!ir::is_module_call(op)) return function_kernel_inputs(kernel, q, op, input);
    const ir::ModuleCall& call =
        ir::call_of(gm_, op).members.empty() ? ir::call_of(gm_, op) : ir::call_of(gm_, op).members.front();
    if (!call.module) return std::nullopt;
    const torch::jit::Module& module = *call.module;
    const auto number = [&](const char* name, c10::Symbol aten) -> Value* {
      const auto value = modules::module_constant(module, name, aten, name);
      return value && !value->isNone() ? constant(*value, q) : nullptr;
    };
    const auto tensor = [&](const char* name) -> Value* {
      if (!module.hasattr(name) || !module.attr(name).isTensor()) return constant(c10::IValue(), q);
      return attribute_of(module.attr(name).toTensor().detach(), call.path + "_" + name, q);
    };
    if (kernel == "quantized::elu") {
      Value* alpha = number("alpha", c10::aten::elu);
      if (alpha == nullptr) return std::nullopt;
      return std::vector<Value*>{
          input, scale, zero_point, alpha, constant(int64_t{1}, q), constant(int64_t{1}, q)};
    }
    if (kernel == "quantized::leaky_relu") {
      Value* slope = number("negative_slope", c10::aten::leaky_relu);
      if (slope == nullptr) return std::nullopt;
      return at_end({input, slope, constant(false, q)});
    }
    if (kernel == "quantized::softmax") {
      Value* dim = number("dim", c10::aten::softmax);
      if (dim == nullptr) return std::nullopt;
      return at_end({input, dim});
    }
    if (kernel == "quantized::prelu") return prelu_inputs(module, call, q, op, input);
    if (kernel == "quantized::layer_norm") {
      const auto shape =
          modules::module_constant(module, "normalized_shape", c10::aten::layer_norm, "normalized_shape");
      Value* eps = number("eps", c10::aten::layer_norm);
      if (!shape || eps == nullptr) return std::nullopt;
      return at_end({input, constant(as_int_list(*shape), q), tensor("weight"), tensor("bias"), eps});
    }
    if (kernel == "quantized::instance_norm") {
      Value* eps = number("eps", c10::aten::instance_norm);
      if (eps == nullptr) return std::nullopt;
      return at_end({input, tensor("weight"), tensor("bias"), eps});
    }
    const auto bn = modules::batch_norm_parameters(module);
    if (!bn) return std::nullopt;
    return at_end({input, tensor("weight"), tensor("bias"), tensor("running_mean"), tensor("running_var"),
                   constant(bn->eps, q)});
  }

  static c10::IValue as_int_list(const c10::IValue& value) {
    if (value.isIntList()) return value;
    std::vector<int64_t> list;
    if (value.isTuple()) {
      for (const c10::IValue& element : value.toTupleRef().elements()) list.push_back(element.toInt());
    }
    return list;
  }

  /// LibTorch's kernel multiplies positive values by the code of 1.0 in the slopes' range, and is wrong
  /// everywhere when 1.0 lies outside of it: then the range is observed with 1.0 among the slopes.
  static std::optional<at::Tensor> quantized_slopes(const ObserverSpec& spec, const at::Tensor& weight) {
    constexpr int64_t kLargestCode = 255;
    QParams qparams = observe_once(spec, weight);
    if (qparams.qscheme != c10::QScheme::PER_TENSOR_AFFINE) return std::nullopt;
    const auto code_of_one = [&] {
      return std::llround(1.0 / qparams.scale.item<float>()) + qparams.zero_point.item<int64_t>();
    };
    if (code_of_one() > kLargestCode)
      qparams = observe_once(spec, at::cat({weight.flatten(), at::ones({1}, weight.options())}));
    if (code_of_one() > kLargestCode) return std::nullopt;
    return at::quantize_per_tensor(weight, qparams.scale.item<float>(), qparams.zero_point.item<int64_t>(),
                                   c10::ScalarType::QUInt8);
  }

  /// nnq.PReLU.from_reference: slopes quantized with a fresh weight observer.
  std::optional<std::vector<Value*>> prelu_inputs(const torch::jit::Module& module,
                                                  const ir::ModuleCall& call, Node* q, const Node* op,
                                                  Value* input) {
    const ir::NodeState* state = ir::state_of(gm_, op);
    if (state == nullptr || !state->qconfig) return std::nullopt;
    const at::Tensor weight = module.attr("weight").toTensor().detach();
    const auto quantized = quantized_slopes(state->qconfig->weight, weight);
    if (!quantized) return std::nullopt;
    return std::vector<Value*>{input, attribute_of(*quantized, call.path + "_weight", q), q->input(1),
                               q->input(2)};
  }

  std::optional<std::vector<Value*>> function_kernel_inputs(std::string_view kernel, Node* q, Node* op,
                                                            Value* input) {
    const auto arguments = ir::arguments(op);
    const bool is_functional = op->kind() == c10::prim::CallFunction;
    const auto argument = [&](std::size_t index) { return arguments.at(index).value; };
    Value* scale = q->input(1);
    Value* zero_point = q->input(2);
    if (kernel == "quantized::elu" && arguments.size() >= 2) {
      return std::vector<Value*>{
          input, scale, zero_point, argument(1), constant(int64_t{1}, q), constant(int64_t{1}, q)};
    }
    if (kernel == "quantized::leaky_relu" && arguments.size() >= 2) {
      return std::vector<Value*>{input, argument(1), constant(false, q), scale, zero_point};
    }
    if (kernel == "quantized::layer_norm" && arguments.size() >= 5) {
      return std::vector<Value*>{input,       argument(1), argument(2), argument(3),
                                 argument(4), scale,       zero_point};
    }
    if (kernel == "quantized::instance_norm" && is_functional && arguments.size() >= 8) {
      return std::vector<Value*>{input, argument(3), argument(4), argument(7), scale, zero_point};
    }
    return std::nullopt;
  }

  GraphModule& gm_;
  Report& report_;
  std::map<std::string, std::string> packed_names_;
  std::vector<Packing> to_pack_;
};

}  // namespace

void lower(GraphModule& gm, Report& report) { Lowering(gm, report).run(); }

}  // namespace tsq::passes
