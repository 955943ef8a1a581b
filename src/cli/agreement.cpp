#include "cli/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tsq::cli {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor left = a.contiguous();
  const at::Tensor right = b.contiguous();
  return left.numel() == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

double sum_of_products(const at::Tensor& a, const at::Tensor& b) { return at::dot(a, b).item<double>(); }

void collect(const at::IValue& value, const std::string& place,
             std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor().detach();
    tensors.emplace_back(place, tensor.is_quantized() ? tensor.dequantize() : tensor);
  } else if (value.isTuple()) {
    std::size_t index = 0;
    for (const at::IValue& element : value.toTupleRef().elements())
      collect(element, fmt::format("{}[{}]", place, index++), tensors);
  } else if (value.isList()) {
    std::size_t index = 0;
    for (const at::IValue& element : value.toListRef())
      collect(element, fmt::format("{}[{}]", place, index++), tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const at::IValue& key = entry.key();
      collect(entry.value(),
              key.isString() ? fmt::format("{}['{}']", place, key.toStringRef())
                             : fmt::format("{}[{}]", place, fmt::to_string(key.toInt())),
              tensors);
    }
  }
}

}  // namespace

void Agreement::add(const at::Tensor& wanted, const at::Tensor& got) {
  equal_bits_ = equal_bits_ && same_bits(wanted, got);
  const at::Tensor x = wanted.to(at::kDouble).flatten();
  const at::Tensor y = got.to(at::kDouble).flatten();
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
  if (wanted.dim() != 2 || wanted.size(1) < 2 || !wanted.is_floating_point()) {
    all_matrices_ = false;
    return;
  }
  rows_ += static_cast<uint64_t>(wanted.size(0));
  rows_agreed_ += static_cast<uint64_t>((wanted.argmax(1) == got.argmax(1)).sum().item<int64_t>());
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

std::optional<double> Agreement::top1() const {
  if (!all_matrices_ || rows_ == 0) return std::nullopt;
  return static_cast<double>(rows_agreed_) / static_cast<double>(rows_);
}

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const at::IValue& result) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  collect(result, "output", tensors);
  return tensors;
}

}  // namespace tsq::cli
