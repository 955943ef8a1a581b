// Averages in float by the kernel that is fastest with them. For images avg_pool2d takes a third of the time
// of adaptive_avg_pool2d and mean; for signals avg_pool1d takes half of that of mean, which divides the sum
// by an operator of its own. For very many values it takes ten times as long, but the convolution that
// returns them much longer than either.
//   adaptive_avg_pool2d(dequantize(x), 1)           →   avg_pool2d(dequantize(x), x.size()[2:])
//   adaptive_avg_pool2d(mul(x, factors), 1)           →   mul(avg_pool2d(x, x.size()[2:]), factors)
//   mean(sigmoid(dequantize(conv1d(x))), [2], True)   →   avg_pool1d(…, the signal's length)

#include <torch/csrc/jit/ir/constants.h>

#include "backends/kernels/operands.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/images/whole_average.h"
#include "operators/traits.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

/// x.size()[2:]
Value* image_size(const ir::Rewriter& in_front, Value* x) {
  const auto sizes = [&](const char* kind, const std::vector<Value*>& inputs) {
    return in_front.op(kind, inputs, c10::ListType::ofInts());
  };
  return sizes("aten::slice", {sizes("aten::size", {x}), in_front.constant(int64_t{2}),
                               in_front.constant(c10::IValue()), in_front.constant(int64_t{1})});
}

/// Whether a kernel returns a value, or what it is made of, in channels-last layout, and with four
/// dimensions.
bool is_image_of_kernel(const Model& model, const Value* value) {
  const Node* node = value->node();
  const bool is_float = node->kind() == c10::Symbol::fromQualString("onednn::qconv2d_pointwise");
  if (node->kind() != ir::kDequantize && !is_float) {
    const auto operands = ir::operands(node);
    return operators::has(operators::traits_of(model, node), operators::KeepsLayout) && !operands.empty() &&
           is_image_of_kernel(model, operands.front());
  }
  const Node* kernel = is_float ? node : node->input(0)->node();
  if (!ir::is_module_call(kernel)) return kernels::Operand(model, value).rank() == 4;
  return ir::call_of(model, kernel).type.name.ends_with("2d");  // MaxPool2d
}

/// The numbers by which the channels of a value are multiplied, for the average alone; null: they are not.
Value* factors_of_channels(const Model& model, Value* value) {
  Node* product = value->node();
  if (product->kind() != c10::aten::mul || ir::only_reader(product) == nullptr) return nullptr;
  const Node* attribute = product->input(1)->node();
  if (attribute->kind() != c10::prim::GetAttr || attribute->input(0) != model.graph->inputs().front() ||
      model.state.contains(attribute->s(c10::attr::name)))
    return nullptr;
  const c10::IValue factors = model.attributes.attr(attribute->s(c10::attr::name));
  if (!factors.isTensor()) return nullptr;
  const at::Tensor& tensor = factors.toTensor();
  const bool is_of_channels = tensor.dim() == 3 && tensor.numel() == tensor.size(0);
  return is_of_channels ? product->input(1) : nullptr;
}

void replace(Node* average, Value* pooled) {
  average->output()->replaceAllUsesWith(pooled);
  average->destroy();
}

void use_average_pool(Model& model, Node* average) {
  const ir::Rewriter in_front(model, average);
  Value* x = ir::operands(average).front();
  Value* factors = factors_of_channels(model, x);
  if (factors != nullptr) x = x->node()->input(0);
  Value* no_strides = in_front.constant(c10::List<int64_t>());
  Value* no_padding = in_front.constant(std::vector<int64_t>{0, 0});
  Value* pooled = in_front.op("aten::avg_pool2d",
                              {x, image_size(in_front, x), no_strides, no_padding, in_front.constant(false),
                               in_front.constant(true), in_front.constant(c10::IValue())});
  if (factors != nullptr) pooled = in_front.op("aten::mul", {pooled, factors});
  replace(average, pooled);
}

struct Signals {
  const Node* kernel{};
  int64_t dims{};  ///< the kernel's three, or two where its one channel is taken out
};

bool has_one_channel(const Model& model, const Node* kernel) {
  const auto params = kernels::unpacked(model, kernel->input(1), "quantized::conv1d_unpack");
  return params && params->weight.size(0) == 1;
}

/// The signals of a kernel that a value is made of, value by value; empty for others.
std::optional<Signals> signals_of(const Model& model, const Value* value) {
  constexpr int64_t kOfKernel = 3;
  const Node* node = value->node();
  if (node->kind() == ir::kDequantize) {
    const Node* kernel = node->input(0)->node();
    const bool gives_signals =
        std::string_view(kernel->kind().toQualString()).starts_with("quantized::conv1d");
    return gives_signals ? std::optional(Signals{kernel, kOfKernel}) : std::nullopt;
  }
  const bool squeezes = node->kind() == c10::aten::squeeze;
  if (!squeezes && !operators::is_elementwise(operators::traits_of(node))) return std::nullopt;
  const auto signals = signals_of(model, ir::operands(node).front());
  if (!signals || !squeezes) return signals;
  const auto dim = ir::whole_number_constant(node->inputs().back());
  const bool takes_channel_out =
      signals->dims == kOfKernel && (dim == 1 || dim == -2) && has_one_channel(model, signals->kernel);
  return takes_channel_out ? std::optional(Signals{signals->kernel, kOfKernel - 1}) : std::nullopt;
}

/// Whether a node is the mean of each signal, in whose place it leaves one value.
bool is_mean_of_signals(const Model& model, const Node* node) {
  const auto over = operators::averaged_and_kept(model, node);
  if (!over || over->size() != 1) return false;
  const auto dtype = operators::argument_constant(model, node, "dtype");
  const auto signals = signals_of(model, node->input(0));
  return signals && dtype && dtype->isNone() && (over->front() == -1 || over->front() == signals->dims - 1);
}

void use_average_pool_of_signals(Model& model, Node* mean) {
  const ir::Rewriter in_front(model, mean);
  Value* length =
      in_front.op("aten::size", {mean->input(0), in_front.constant(int64_t{-1})}, c10::IntType::get());
  Value* kernel = ir::list_before(mean, c10::IntType::get(), {length});
  Value* pooled =
      in_front.op("aten::avg_pool1d", {mean->input(0), kernel, in_front.constant(c10::List<int64_t>()),
                                       in_front.constant(std::vector<int64_t>{0}), in_front.constant(false),
                                       in_front.constant(true)});
  replace(mean, pooled);
}

}  // namespace

bool pool_averages(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (is_mean_of_signals(model, node)) {
      use_average_pool_of_signals(model, node);
    } else if (operators::is_whole_image_average(model, node) &&
               is_image_of_kernel(model, ir::operands(node).front())) {
      use_average_pool(model, node);
    } else {
      continue;
    }
    has_changed = true;
  }
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
