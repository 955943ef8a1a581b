// A LayerNorm that is written out becomes one operator: six reductions and products of the whole tensor less,
// and what knows a LayerNorm by its name knows this one.
//   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight + bias   →   layer_norm(x, weight, bias,
//   eps)
// Exporters to ONNX before version 17 write it so.

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/whole_average.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/written_out.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// A LayerNorm over the last dimension.
struct Written {
  Node* last{};
  Value* x{};
  Value* weight{};
  Value* bias{};  ///< null: none
  double eps{};
  int64_t size{};
};

class LayerNormGathering {
 public:
  explicit LayerNormGathering(Model& gm) : gm_(gm) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (const auto written = written_at(node)) gather(*written);
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  /// The LayerNorm whose division `node` is.
  std::optional<Written> written_at(Node* node) const {
    if (node->kind() != c10::aten::div || node->inputs().size() != 2) return std::nullopt;
    Value* centered = node->input(0);
    Value* x = centered_of(centered);
    const auto eps = x == nullptr ? std::nullopt : eps_of_deviation(node->input(1), x);
    if (!eps) return std::nullopt;
    Written written{.last = node, .x = x, .eps = *eps};
    written.weight = take(written, c10::aten::mul);
    if (written.weight == nullptr) return std::nullopt;
    written.bias = take(written, c10::aten::add);
    return written;
  }

  /// x, where a value is x - mean(x); null for others.
  Value* centered_of(const Value* value) const {
    const Node* node = value->node();
    const bool is_difference = node->kind() == c10::aten::sub && node->inputs().size() == 3 &&
                               constant_number(gm_, node->input(2)) == 1;
    if (!is_difference || mean_of(node->input(1)) != node->input(0)) return nullptr;
    return const_cast<Value*>(node->input(0));
  }

  /// What a value is the mean of, over the last dimension; null for others.
  const Value* mean_of(const Value* value) const {
    const auto dims = operators::averaged_and_kept(gm_, value->node());
    return dims == std::vector<int64_t>{-1} ? value->node()->input(0) : nullptr;
  }

  /// eps, where a value is sqrt(mean((x - mean(x)) ** 2) + eps).
  std::optional<double> eps_of_deviation(const Value* value, const Value* x) const {
    const Node* root = value->node();
    if (root->kind() != c10::aten::sqrt) return std::nullopt;
    const Node* sum = root->input(0)->node();
    const Value* variance = plus_number(gm_, sum);
    const Value* square = variance == nullptr ? nullptr : mean_of(variance);
    if (square == nullptr || !is_square_of_centered(square->node(), x)) return std::nullopt;
    return constant_number(gm_, sum->input(sum->input(0) == variance ? 1 : 0));
  }

  bool is_square_of_centered(const Node* node, const Value* x) const {
    const bool is_power = node->kind() == c10::aten::pow && constant_number(gm_, node->input(1)) == 2;
    const bool is_product = node->kind() == c10::aten::mul && node->input(0) == node->input(1);
    return (is_power || is_product) && centered_of(node->input(0)) == x;
  }

  /// The vector by which the only reader of what was found so far multiplies it, or which it adds: the reader
  /// becomes the last. Null for other readers.
  Value* take(Written& written, c10::Symbol kind) const {
    Node* reader = ir::only_reader(written.last);
    if (reader == nullptr || reader->kind() != kind) return nullptr;
    if (kind == c10::aten::add && !is_plain_sum(gm_, reader)) return nullptr;
    Value* other = reader->input(reader->input(0) == written.last->output() ? 1 : 0);
    const int64_t size = vector_size(other);
    if (size == 0 || (written.size != 0 && size != written.size)) return nullptr;
    written.size = size;
    written.last = reader;
    return other;
  }

  /// Of a constant vector; 0 for other values.
  int64_t vector_size(const Value* value) const {
    const auto constant = held_constant(gm_, value);
    if (!constant || !constant->isTensor()) return 0;
    const at::Tensor& tensor = constant->toTensor();
    const bool is_vector = tensor.defined() && tensor.dim() == 1 && tensor.is_floating_point();
    return is_vector ? tensor.size(0) : 0;
  }

  void gather(const Written& written) {
    const auto constant = [&](const c10::IValue& value) {
      return ir::constant_before(gm_, written.last, value);
    };
    Value* bias = written.bias == nullptr ? constant(c10::IValue()) : written.bias;
    become(gm_, written.last, c10::aten::layer_norm,
           {written.x, constant(std::vector<int64_t>{written.size}), written.weight, bias,
            constant(written.eps), constant(false)});
  }

  Model& gm_;
};

}  // namespace

void gather_layer_norms(Model& gm) { LayerNormGathering(gm).run(); }

}  // namespace tsq::passes
