// Convolutions over signals run as convolutions over images of height one, by the same packed weights. The
// kernels read and write channels last, a layout that tensors of three dimensions do not keep: each
// quantize, int_repr and dequantize between them would copy.
//   quantized::conv1d(quantize(x))   →   squeeze(quantized::conv2d(quantize(unsqueeze(x, 2))), 2)

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/traits.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

/// The same operator for signals and for images, by the position of the first of its lists of sizes.
struct Kernel {
  std::string_view for_signals;
  std::string_view for_images;
  std::size_t sizes{};  ///< stride, padding and dilation; 0: packed with the weight
};
constexpr std::array kSignalKernels{
    Kernel{"quantized::conv1d", "quantized::conv2d"},
    Kernel{"quantized::conv1d_relu", "quantized::conv2d_relu"},
    Kernel{"onednn::qconv1d_pointwise", "onednn::qconv2d_pointwise", 7},
};
/// What stands between a float tensor and the kernel that reads it.
constexpr std::array<std::string_view, 3> kInFront{
    "aten::quantize_per_tensor", "aten::_make_per_tensor_quantized_tensor", "aten::int_repr"};
constexpr int64_t kHeight = 2;

const Kernel* kernel_of(std::string_view name) {
  const auto found = std::ranges::find(kSignalKernels, name, &Kernel::for_signals);
  return found == kSignalKernels.end() ? nullptr : &*found;
}

/// How many tensors of one shape an operator reads that computes value by value; 0 for others.
std::size_t tensors_of(const Node* node) {
  const auto* const row = operators::traits_of(node);
  if (node->kind() == c10::prim::CallFunction || operators::is_in_place(node->kind().toUnqualString()))
    return 0;
  if (operators::has(row, operators::ElementwiseOfTwo)) return 2;
  return operators::is_elementwise(row) ? 1 : 0;
}

class SignalsAsImages {
 public:
  explicit SignalsAsImages(Model& model) : model_(model) {}

  bool run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (const Kernel* kernel = kernel_of(node->kind().toQualString())) {
        convolve(node, *kernel);
      } else if (const std::size_t tensors = tensors_of(node); tensors > 0 && reads_images(node, tensors)) {
        compute(node, tensors);
      } else if (node->kind() == c10::aten::squeeze && images_.contains(node->input(0))) {
        squeeze_at_once(node);
      }
    }
    ir::eliminate_dead_code(*model_.graph);
    return !images_.empty();
  }

 private:
  void convolve(Node* node, const Kernel& kernel) {
    std::vector<Value*> inputs = node->inputs().vec();
    inputs[0] = image_of(node->input(0), node);
    constexpr std::array<int64_t, 3> kOfHeight{1, 0, 1};  // stride, padding, dilation
    for (std::size_t i = 0; kernel.sizes > 0 && i < kOfHeight.size(); ++i) {
      std::vector<int64_t> sizes = ir::constant_value(inputs[kernel.sizes + i])->toIntVector();
      sizes.insert(sizes.begin(), kOfHeight[i]);
      inputs[kernel.sizes + i] = ir::constant_before(node, sizes);
    }
    replace(node, kernel.for_images, inputs);
  }

  bool reads_images(const Node* node, std::size_t tensors) const {
    return std::ranges::all_of(node->inputs().slice(0, tensors),
                               [&](const Value* value) { return images_.contains(value); });
  }

  void compute(Node* node, std::size_t tensors) {
    std::vector<Value*> inputs = node->inputs().vec();
    for (std::size_t i = 0; i < tensors; ++i) inputs[i] = images_.at(inputs[i]);
    replace(node, node->kind().toQualString(), inputs);
  }

  /// A signal with a height of one: what it was made of, or a view of it for `reader`.
  Value* image_of(Value* signal, Node* reader) {
    if (const auto made = images_.find(signal); made != images_.end()) return made->second;
    Node* node = signal->node();
    // In another block it may be one of another rank.
    const bool may_be_made =
        node->owningBlock() == reader->owningBlock() &&
        std::ranges::find(kInFront, std::string_view(node->kind().toQualString())) != kInFront.end();
    if (!may_be_made) {
      const ir::Rewriter in_front(model_, reader);
      return in_front.op("aten::unsqueeze", {signal, in_front.constant(kHeight)});
    }
    std::vector<Value*> inputs = node->inputs().vec();
    inputs[0] = image_of(inputs[0], node);
    return replace(node, node->kind().toQualString(), inputs);
  }

  /// A node that returns an image, and the signal in it for readers that take no other.
  Value* replace(Node* node, std::string_view kind, const std::vector<Value*>& inputs) {
    const ir::Rewriter in_front(model_, node);
    Value* image = in_front.op(std::string(kind).c_str(), inputs);
    Value* signal = in_front.op("aten::squeeze", {image, in_front.constant(kHeight)});
    node->output()->replaceAllUsesWith(signal);
    node->destroy();
    images_.emplace(signal, image);
    return image;
  }

  /// squeeze(squeeze(image, height), dim) takes both dimensions out.
  void squeeze_at_once(Node* squeeze) {
    const auto dim = ir::whole_number_constant(squeeze->inputs().back());
    if (!dim) return;
    const bool is_counted_alike = *dim >= 0 ? *dim < kHeight : *dim == -1;
    const int64_t of_image = is_counted_alike ? *dim : *dim + (*dim < 0 ? -1 : 1);
    squeeze->replaceInput(0, images_.at(squeeze->input(0)));
    squeeze->replaceInput(1, ir::constant_before(squeeze, std::vector<int64_t>{kHeight, of_image}));
  }

  Model& model_;
  std::unordered_map<const Value*, Value*> images_;  ///< of a signal
};

}  // namespace

bool signals_as_images(Model& model, const PassContext& /*context*/) {
  const bool has_changed = SignalsAsImages(model).run();
  // Reports name the kernel that runs.
  for (ir::NodeRecord& record : model.records) {
    if (const Kernel* kernel = kernel_of(record.decision.kernel)) record.decision.kernel = kernel->for_images;
  }
  return has_changed;
}

}  // namespace tsq::passes
