#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/agreement.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tsq {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor left = a.contiguous();
  const at::Tensor right = b.contiguous();
  return left.numel() == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

constexpr int64_t kMostRowsForNearest = 2000;

at::Tensor with_length_one(const at::Tensor& rows) {
  return rows / at::linalg_vector_norm(rows, 2, {1}, /*keepdim=*/true).clamp_min(1e-30);
}

/// For each row the index of the most similar other row.
at::Tensor nearest_rows(const std::vector<at::Tensor>& rows) {
  const at::Tensor all = at::cat(rows);
  at::Tensor similarity = at::matmul(all, all.t());
  similarity.fill_diagonal_(-2);
  return similarity.argmax(1);
}

/// Rows of wanted and got values, those of each wanted row that are not finite left out as zeros in both.
std::pair<at::Tensor, at::Tensor> finite_rows(const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor is_left_out = at::isfinite(wanted).logical_not();
  return {wanted.to(at::kFloat).masked_fill(is_left_out, 0), got.to(at::kFloat).masked_fill(is_left_out, 0)};
}

double sum_of_products(const at::Tensor& a, const at::Tensor& b) { return at::dot(a, b).item<double>(); }

/// The numbers of a result, in memory.
at::Tensor plain(const at::Tensor& tensor, const std::string& place) {
  if (tensor.is_meta())
    throw Error(ErrorCode::BadModel,
                fmt::format("'{}' is a tensor on device meta, which holds no numbers", place),
                "return a tensor on the CPU");
  if (tensor.is_quantized()) return tensor.dequantize();
  return tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
}

/// "['logits']", "[3]", and for keys of other kinds their number among the entries: "[entry 0]".
std::string text_of_key(const at::IValue& key, std::size_t entry) {
  if (key.isString()) return fmt::format("['{}']", key.toStringRef());
  return key.isInt() ? fmt::format("[{}]", key.toInt()) : fmt::format("[entry {}]", entry);
}

void collect(const at::IValue& value, const std::string& place,
             std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (value.isTensor()) {
    tensors.emplace_back(place, plain(value.toTensor(), place));
  } else if (value.isTuple() || value.isList()) {
    const c10::ArrayRef<at::IValue> elements =
        value.isTuple() ? value.toTupleRef().elements().asArrayRef() : value.toListRef();
    std::size_t index = 0;
    for (const at::IValue& element : elements)
      collect(element, fmt::format("{}[{}]", place, index++), tensors);
  } else if (value.isGenericDict()) {
    std::size_t number = 0;
    for (const auto& entry : value.toGenericDict())
      collect(entry.value(), place + text_of_key(entry.key(), number++), tensors);
  }
}

bool is_matrix(const at::Tensor& tensor) {
  return tensor.dim() == 2 && tensor.size(1) >= 2 && tensor.is_floating_point();
}

}  // namespace

void Agreement::add(const at::Tensor& wanted, const at::Tensor& got) {
  equal_bits_ = equal_bits_ && same_bits(wanted, got);
  const at::Tensor counts = at::isfinite(wanted).flatten();
  const at::Tensor x = wanted.to(at::kDouble).flatten().masked_select(counts);
  const at::Tensor y = got.to(at::kDouble).flatten().masked_select(counts);
  const at::Tensor error = x - y;
  numbers_ += static_cast<uint64_t>(x.numel());
  wanted_power_ += sum_of_products(x, x);
  got_power_ += sum_of_products(y, y);
  product_ += sum_of_products(x, y);
  error_power_ += sum_of_products(error, error);
  if (x.numel() > 0) {
    const double largest = error.abs().max().item<double>();
    largest_error_ = std::isnan(largest) ? largest : std::max(largest_error_, largest);
  }
  if (!is_matrix(wanted)) {
    all_matrices_ = false;
    return;
  }
  const at::Tensor has_numbers = wanted.isnan().any(1).logical_not();
  const auto [finite_wanted, finite_got] = finite_rows(wanted.index({has_numbers}), got.index({has_numbers}));
  rows_ += static_cast<uint64_t>(finite_wanted.size(0));
  const at::Tensor wanted_rows = with_length_one(finite_wanted);
  const at::Tensor got_rows = with_length_one(finite_got);
  row_cosines_ += (wanted_rows * got_rows).sum().item<double>();
  const bool same_length = wanted_rows_.empty() || wanted_rows_.front().size(1) == wanted_rows.size(1);
  if (rows_kept_ >= kMostRowsForNearest || !same_length) return;
  wanted_rows_.push_back(wanted_rows);
  got_rows_.push_back(got_rows);
  rows_kept_ += wanted_rows.size(0);
}

double Agreement::sqnr_db() const {
  if (error_power_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(wanted_power_ / error_power_);
}

double Agreement::cosine() const {
  const double lengths = std::sqrt(wanted_power_) * std::sqrt(got_power_);
  if (lengths == 0) return wanted_power_ == got_power_ ? 1 : 0;
  return product_ / lengths;
}

std::optional<double> Agreement::row_cosine() const {
  if (!all_matrices_ || rows_ == 0) return std::nullopt;
  return row_cosines_ / static_cast<double>(rows_);
}

std::optional<double> Agreement::nearest() const {
  constexpr int64_t kFewestRows = 3;
  if (!all_matrices_ || rows_kept_ < kFewestRows) return std::nullopt;
  return (nearest_rows(wanted_rows_) == nearest_rows(got_rows_)).to(at::kDouble).mean().item<double>();
}

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const at::IValue& result) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  collect(result, "output", tensors);
  return tensors;
}

}  // namespace tsq
