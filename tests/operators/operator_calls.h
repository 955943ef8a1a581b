#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "operators/traits.h"

/// The operators of the table themselves: they are called with random tensors, and with arguments that are
/// chosen by their names. A new row needs nothing here, unless it takes an argument that no other operator
/// takes.
namespace tsq::operators::calls {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kScale = 0.05;
constexpr int64_t kZeroPoint = 128;

/// Every row that LibTorch has an operator for: all but that of torch.nn.Identity.
std::vector<OperatorTraits> rows_with_operator();
/// Those of which a predicate holds; at least one.
template <typename Predicate>
std::vector<OperatorTraits> rows_where(Predicate predicate) {
  std::vector<OperatorTraits> rows = rows_with_operator();
  std::erase_if(rows, [&](const OperatorTraits& row) { return !predicate(row); });
  EXPECT_FALSE(rows.empty());
  return rows;
}
std::vector<OperatorTraits> rows_with(Trait trait);
std::vector<OperatorTraits> rows_with(Values values);

bool exists(std::string_view name);

struct Call {
  std::shared_ptr<torch::jit::Operator> op{};
  torch::jit::Stack arguments{};
};
/// A call of the first overload whose arguments are known; of one of a list of tensors where there is no
/// other.
Call call_of(std::string_view name, const Tensors& tensors);

c10::IValue result_of(std::string_view name, const Tensors& tensors);
/// The tensors that an operator returns.
Tensors results(std::string_view name, const Tensors& tensors);
/// The one tensor, or all of them in a row.
Tensor result(const OperatorTraits& row, const Tensors& tensors);

std::vector<int64_t> shape_for(std::string_view name);
/// Between -5 and 5; of operators that are steep somewhere, where they are defined and tame.
Tensor random_values(const OperatorTraits& row, at::IntArrayRef shape);
/// As the operand of a row: operators of quantized tensors read these.
Tensor as_operand(const OperatorTraits& row, const Tensor& values);
Tensor operand(const OperatorTraits& row);
Tensors operands(const OperatorTraits& row);

Tensor as_float(const Tensor& tensor);
Tensor bits(const Tensor& tensor);
bool are_of(const Tensor& some, const Tensor& all);
/// Equal bit by bit, but for kernels that compute the ends of a row by other instructions.
bool is_near(const Tensor& a, const Tensor& b);

class TraitsTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
};

}  // namespace tsq::operators::calls
