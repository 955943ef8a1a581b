#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tsq {

/// Rows of a matrix of scores, in each of which the column of the largest number is the decision.
struct Decisions {
  uint64_t rows{0};
  uint64_t agreed{0};  ///< the same column, and that one alone unless several are largest where it is wanted
  uint64_t tied{0};    ///< several columns are the largest where one is wanted

  void add(const Decisions& more);
};

/// Of all rows of a float matrix of two columns or more.
Decisions decisions(const at::Tensor& wanted, const at::Tensor& got);
/// Of the rows alone in which one column has nine tenths of the probability or more: such rows are no near
/// ties. They are taken as probabilities where no number is negative and each row adds up to one, else as
/// logits, whose softmax is.
Decisions clear_decisions(const at::Tensor& wanted, const at::Tensor& got);
/// Whether a tensor is a float matrix of two columns or more.
bool may_be_scores(const at::Tensor& tensor);

/// How near one tensor comes to another, summed up over many pairs of them.
class Agreement {
 public:
  /// `got` is to equal `wanted`, which has the same shape.
  void add(const at::Tensor& wanted, const at::Tensor& got);

  /// 10 log10(power of wanted / power of the difference); infinite when there is no difference.
  [[nodiscard]] double sqnr_db() const;
  /// Sum of the squares of the difference.
  [[nodiscard]] double error_power() const noexcept { return error_power_; }
  [[nodiscard]] double largest_error() const noexcept { return largest_error_; }
  [[nodiscard]] double cosine() const;
  /// Share of rows with the same decision; empty unless every output was a float matrix.
  [[nodiscard]] std::optional<double> top1() const;
  /// Mean over the rows of the cosine between a row and the row that it is to equal; empty as top1.
  [[nodiscard]] std::optional<double> row_cosine() const;
  /// Share of rows whose most similar other row, by cosine, is the same for both: what a search among
  /// embeddings finds. Looks at the first 2,000 rows. Empty as top1, and below three rows.
  [[nodiscard]] std::optional<double> nearest() const;
  [[nodiscard]] bool equal_bits() const noexcept { return equal_bits_; }
  [[nodiscard]] uint64_t numbers() const noexcept { return numbers_; }

 private:
  double wanted_power_{0};
  double got_power_{0};
  double error_power_{0};
  double product_{0};
  double largest_error_{0};
  uint64_t numbers_{0};
  Decisions decisions_{};
  double row_cosines_{0};
  std::vector<at::Tensor> wanted_rows_{};  ///< of length 1, for nearest()
  std::vector<at::Tensor> got_rows_{};
  int64_t rows_kept_{0};
  bool all_matrices_{true};
  bool equal_bits_{true};
};

/// The tensors of a model's result with the place of each in it: "output", "output[1]", "output['logits']".
/// Quantized tensors come out dequantized.
std::vector<std::pair<std::string, at::Tensor>> tensors_of(const at::IValue& result);

}  // namespace tsq
