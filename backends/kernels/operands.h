#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "ir/model.h"

namespace tsq::kernels {

/// A tensor of bytes that a kernel reads, or may read: of the calibrated graph, where an observer stands for
/// the rounding, of the reference graph, and of one in which kernels stand already. Tells what is so for
/// every input of the model, and nothing of what samples alone have shown.
class Operand {
 public:
  Operand(const ir::Model& model, const ir::Value* bytes) : model_(&model), bytes_(bytes) {}

  /// Of the codes.
  [[nodiscard]] std::optional<c10::ScalarType> dtype() const;
  /// Empty in the calibrated graph: ranges change before they are written.
  [[nodiscard]] std::optional<double> scale() const;
  /// The number of dimensions.
  [[nodiscard]] std::optional<std::int64_t> rank() const;
  /// Whether its batch dimension was put in front of it, and nothing but element-wise operators came after.
  [[nodiscard]] bool batch_was_added() const;

 private:
  const ir::Model* model_;
  const ir::Value* bytes_;
};

/// What a kernel may read in the place of a value that a float operator reads; empty where the value is not
/// rounded to bytes in front of it.
[[nodiscard]] std::optional<Operand> bytes_read(const ir::Model& model, const ir::Value* value);
/// The bytes of the reference graph; null where there are none.
[[nodiscard]] ir::Value* quantized_before(const ir::Value* value);

/// What becomes of an operator's output, rounded; empty where it is not.
[[nodiscard]] std::optional<Operand> bytes_returned(const ir::Model& model, const ir::Node* op);

/// The weight of a layer as kernels would have it.
class LayerWeight {
 public:
  LayerWeight() = default;
  explicit LayerWeight(const ir::Weighted* held) : held_(held) {}
  explicit LayerWeight(ir::Weighted made) : made_(std::move(made)) {}

  /// Null where it is not known before the model runs, or not to be rounded.
  [[nodiscard]] const ir::Weighted* get() const { return made_ ? &*made_ : held_; }

 private:
  const ir::Weighted* held_{};
  std::optional<ir::Weighted> made_{};
};
/// Of a module, fused or not, F.linear, F.conv* or F.conv_transpose*. In the calibrated graph with the form
/// that its observer gives it, but for the numbers: a zero point that is not 0 by its scheme is taken for
/// another.
[[nodiscard]] LayerWeight weight_read(const ir::Model& model, const ir::Node* layer);

/// What convert makes of an observer of a weight, but for the numbers.
[[nodiscard]] QParams form_of_qparams(const ResolvedObserver& observer, const at::Tensor& weight);

/// Notes which dtype a kernel returns that has taken the place of a quantize node: what is asked of the
/// operands of kernels after it is told without a walk through all that come before.
void note_dtype(const ir::Model& model, ir::Node* kernel);

}  // namespace tsq::kernels
