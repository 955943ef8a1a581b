#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tsq {

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
  /// Mean over the rows of the cosine between a row and the row that it is to equal; empty unless every
  /// tensor was a float matrix of two columns or more.
  [[nodiscard]] std::optional<double> row_cosine() const;
  /// Share of rows whose most similar other row, by cosine, is the same for both: what a search among
  /// embeddings finds. Looks at the first 2,000 rows. Empty as row_cosine, and below three rows.
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
  uint64_t rows_{0};
  double row_cosines_{0};
  std::vector<at::Tensor> wanted_rows_{};  ///< of length 1, for nearest()
  std::vector<at::Tensor> got_rows_{};
  int64_t rows_kept_{0};
  bool all_matrices_{true};
  bool equal_bits_{true};
};

/// The power of one output over all samples, by which its error is judged, as that of a trial
/// (OutputTrial::sqnr_db): of what varies. Samples are added one by one and not kept.
class OutputPower {
 public:
  void add(const at::Tensor& sample);
  [[nodiscard]] double power() const;

 private:
  /// Sums over parts of one size.
  struct Parts {
    at::Tensor sum{};
    at::Tensor counts{};
    int64_t number{0};
    std::vector<int64_t> sizes{};  ///< of a part
    bool are_alike{true};

    void add(const at::Tensor& values, const at::Tensor& counted, at::IntArrayRef part);
    /// What is left of a power when the mean is taken off.
    [[nodiscard]] double centred(double plain) const;
  };
  double plain_{0};
  std::size_t samples_{0};
  Parts of_samples_{};
  Parts of_rows_{};
  Parts of_elements_{};
};

/// The tensors of a model's result with the place of each in it: "output", "output[1]", "output['logits']".
/// Quantized tensors come out dequantized, sparse ones dense, those of a run with gradients with these.
/// Throws Error(BadModel) for a tensor on device meta.
std::vector<std::pair<std::string, at::Tensor>> tensors_of(const at::IValue& result);

}  // namespace tsq
