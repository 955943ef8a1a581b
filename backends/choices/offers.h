#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/lowering_table.h"
#include "backends/kernels/target.h"
#include "ir/model.h"

/// What the tables of kernels have for an operator, and what refuses it: asked by place of the calibrated
/// graph, and by lower of the reference graph.
namespace tsq::kernels {

/// Why an engine does not compute an operator by a kernel that the tables have for it.
struct Refusal {
  ir::Reason reason{ir::Reason::None};
  std::string why{};
  std::string remedy{};
};

/// That an engine does not pack a weight, for a reason of LibTorch's.
[[nodiscard]] Refusal refusal_of_packing(std::string why);

/// A row that names an operator; null: none does.
template <typename Row>
struct Offer {
  const Row* row{};
  std::optional<Refusal> refusal{};

  explicit operator bool() const { return row != nullptr; }
  [[nodiscard]] bool may_be_taken() const { return row != nullptr && !refusal; }
};

/// What an activation is to the operator in front of it; None for other operators.
[[nodiscard]] PostOp post_op_of(const ir::Model& model, const ir::Node* activation);
/// The slope of a LeakyReLU; empty where it is not known before the model runs.
[[nodiscard]] std::optional<double> slope_after(const ir::Model& model, const ir::Node* leaky_relu);

// Kernels that read bytes and return bytes. `post`: the activation that alone reads what the operator
// returns and that the kernel does too; null: none.

[[nodiscard]] Offer<WeightedKernel> weighted_offer(const Target& target, const ir::Model& model,
                                                   const ir::Node* op, const ir::Node* post);

/// A two-tensor operator; its kernel is that of the activation after it where there is one.
struct BinaryOffer : Offer<BinaryKernel> {
  std::string_view kernel{};
};
[[nodiscard]] BinaryOffer binary_offer(const Target& target, const ir::Model& model, const ir::Node* op,
                                       const ir::Node* post);

/// An operator that reads one tensor, or a list of tensors. `name`: the kernel, or the operator's own name
/// where it runs itself.
struct UnaryOffer : Offer<UnaryKernel> {
  std::string name{};
};
[[nodiscard]] UnaryOffer unary_offer(const Target& target, const ir::Model& model, const ir::Node* op);

// Kernels that multiply bytes and return float.

[[nodiscard]] Offer<FloatOutputKernel> float_output_offer(const Target& target, const ir::Model& model,
                                                          const ir::Node* layer);

/// What such a kernel does besides the layer, where it does the activation after it: "hardswish"; else empty.
[[nodiscard]] std::string_view pointwise_activation(const FloatOutputKernel& kernel, const ir::Model& model,
                                                    const ir::Node* activation);

// Kernels that read floats and find the range of each input.

[[nodiscard]] Offer<DynamicKernel> dynamic_offer(const Target& target, const ir::Model& model,
                                                 const ir::Node* op, const ir::Node* relu);

[[nodiscard]] Offer<RecurrentKernel> recurrent_offer(const Target& target, const ir::Model& model,
                                                     const ir::Node* op);

// Kernels that read small weights and compute in float, on every engine.

/// A kernel by name; empty: there is none.
struct NamedOffer {
  std::string kernel{};
  std::optional<Refusal> refusal{};
};
/// Rows of a table.
[[nodiscard]] NamedOffer embedding_offer(const ir::Model& model, const ir::Node* op);
[[nodiscard]] NamedOffer weight_only_offer(const ir::Model& model, const ir::Node* op);

}  // namespace tsq::kernels
