#include "backends/kernels/node_work.h"

#include <algorithm>

#include "backends/kernels/call_work.h"
#include "ir/value_numbers.h"
#include "operators/arguments.h"
#include "operators/functional_weighted.h"
#include "operators/weighted.h"

namespace tsq::kernels {
namespace {

/// The largest sizes of a value that always had one rank, before its observers.
std::optional<Sizes> seen_sizes(const ir::Model& model, const ir::Value* value) {
  const ir::ValueFacts* facts = ir::facts_of(model, ir::before_observers(value));
  if (facts == nullptr || facts->sizes.size() != 1) return std::nullopt;
  return facts->sizes.begin()->second.largest;
}

std::vector<Sizes> seen_sizes(const ir::Model& model, c10::ArrayRef<const ir::Value*> values) {
  std::vector<Sizes> sizes;
  for (const ir::Value* value : values) {
    if (auto seen = seen_sizes(model, value)) sizes.push_back(*std::move(seen));
  }
  return sizes;
}

double last_of(const Sizes& sizes) { return sizes.empty() ? 1 : static_cast<double>(sizes.back()); }

/// Of a sample without a batch, which kernels see as a batch of one.
Sizes in_batch(Sizes sizes, std::size_t dims) {
  if (sizes.size() + 1 == dims) sizes.insert(sizes.begin(), 1);
  return sizes;
}

KernelWork layer_work(const ir::Weighted& layer, bool is_transposed, const Sizes& input,
                      const Sizes& output) {
  const Sizes weight = layer.weight.sizes().vec();
  if (weight.size() == 2) {
    double rows = 1;
    for (std::size_t d = 0; d + 1 < input.size(); ++d) rows *= static_cast<double>(input[d]);
    return linear_work(rows, last_of(input), last_of(output));
  }
  return convolution_work({.input = in_batch(input, weight.size()),
                           .output = in_batch(output, weight.size()),
                           .weight = weight,
                           .stride = layer.stride,
                           .padding = layer.padding,
                           .dilation = layer.dilation,
                           .groups = layer.groups,
                           .is_transposed = is_transposed});
}

/// The layer that a node computes, if it is one.
struct NodeLayer {
  std::optional<ir::Weighted> weighted{};
  bool is_transposed{false};
};

/// With the padding that its kernel is to do.
ir::Weighted as_computed(const ir::Weighted& weighted) {
  ir::Weighted computed = weighted;
  if (!weighted.fold) return computed;
  std::vector<std::int64_t> sizes{weighted.weight.size(0), weighted.weight.size(1)};
  sizes.insert(sizes.end(), weighted.fold->kernel.begin(), weighted.fold->kernel.end());
  computed.weight = at::empty(sizes, weighted.weight.options().device(at::kMeta));
  computed.padding = weighted.fold->padding;
  return computed;
}

NodeLayer weighted_layer(const ir::Model& model, const ir::Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    const ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) return {};
    return {.weighted = as_computed(*weighted),
            .is_transposed = operators::is_transposed(ir::root_of(call).type)};
  }
  if (!operators::is_functional_layer(model, node)) return {};
  const bool is_transposed =
      std::string_view(node->kind().toUnqualString()).find("transpose") != std::string_view::npos;
  return {.weighted = operators::float_functional_parameters(model, node), .is_transposed = is_transposed};
}

/// The numbers of a pool's window; 1 for other operators.
double taps_of(const ir::Model& model, const ir::Node* node, std::size_t dims) {
  const auto window = operators::argument_constant(model, node, "kernel_size");
  if (!window) return 1;
  double taps = 1;
  if (window->isInt()) {
    for (std::size_t d = 0; d < dims; ++d) taps *= static_cast<double>(window->toInt());
  } else if (window->isIntList()) {
    for (const std::int64_t size : window->toIntVector()) taps *= static_cast<double>(size);
  }
  return taps;
}

}  // namespace

std::optional<KernelWork> work_of_node(const ir::Model& model, const ir::Node* node) {
  const auto outputs = seen_sizes(model, node->outputs());
  const auto inputs = seen_sizes(model, node->inputs());
  if (outputs.empty() || inputs.empty()) return std::nullopt;
  const NodeLayer layer = weighted_layer(model, node);
  if (layer.weighted)
    return layer_work(*layer.weighted, layer.is_transposed, inputs.front(), outputs.front());
  KernelWork work = values_work(inputs, outputs);
  const std::size_t rank = inputs.front().size();
  if (rank > 2) work.taps = taps_of(model, node, rank - 2);
  return work;
}

std::optional<KernelWork> work_of_rounding(const ir::Model& model, const ir::Value* value) {
  const auto sizes = seen_sizes(model, value);
  if (!sizes) return std::nullopt;
  const std::vector<Sizes> same{*sizes};
  return values_work(same, same);
}

}  // namespace tsq::kernels
