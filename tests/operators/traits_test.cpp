// Each row of the table of operators, held against the operator itself: it is called with random tensors, and
// with arguments that are chosen by their names. A new row needs nothing here, unless it takes an argument
// that no other operator takes.

#include "operators/traits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <map>

namespace tsq::operators {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using torch::jit::Stack;

constexpr double kScale = 0.05;
constexpr int64_t kZeroPoint = 128;

/// Every row that LibTorch has an operator for: all but that of torch.nn.Identity.
std::vector<OperatorTraits> rows_with_operator() {
  std::vector<OperatorTraits> rows(all().begin(), all().end());
  std::erase_if(rows, [](const OperatorTraits& row) { return row.name == "identity"; });
  return rows;
}

template <typename Predicate>
std::vector<OperatorTraits> rows_where(Predicate predicate) {
  std::vector<OperatorTraits> rows = rows_with_operator();
  std::erase_if(rows, [&](const OperatorTraits& row) { return !predicate(row); });
  EXPECT_FALSE(rows.empty());
  return rows;
}

std::vector<OperatorTraits> rows_with(Trait trait) {
  return rows_where([&](const OperatorTraits& row) { return row.has(trait); });
}

std::vector<OperatorTraits> rows_with(Values values) {
  return rows_where([&](const OperatorTraits& row) { return row.values == values; });
}

Tensor indices(int64_t below, at::IntArrayRef sizes) { return at::randint(below, sizes, at::kLong); }
c10::List<int64_t> sizes(std::initializer_list<int64_t> values) { return {values}; }

/// What operators are called with, by "operator.argument" or, where that has no default, by the argument's
/// name alone. A number stands for a list of as many as the argument has.
const std::map<std::string, c10::IValue>& examples() {
  static const std::map<std::string, c10::IValue> kExamples{
      {"axis0", 1},
      {"axis1", 2},
      {"batch_norm.running_mean", at::rand({4})},
      {"batch_norm.running_var", at::rand({4}) + 0.5},
      {"batch_norm.weight", at::rand({4})},
      {"bmm.mat2", at::randn({2, 6, 4})},
      {"chunks", 2},
      {"clamp.max", 2.01},
      {"clamp.min", -1.03},
      {"clip.max", 2.01},
      {"clip.min", -1.03},
      {"cudnn_enabled", false},
      {"destination", 3},
      {"dim", 1},
      {"dim0", 1},
      {"dim1", 2},
      {"dims", sizes({0, 2, 3, 1})},
      {"downscale_factor", 2},
      {"dtype", static_cast<int64_t>(at::kDouble)},
      {"eps", 1e-5},
      {"expand_as.other", at::empty({3, 2, 4, 6, 8})},
      {"gather.index", indices(2, {2, 4, 6, 8})},
      {"group_norm.weight", at::rand({4})},
      {"groups", 2},
      {"index", 1},
      {"index.indices", c10::List<std::optional<Tensor>>({indices(2, {3})})},
      {"index_select.index", indices(4, {3})},
      {"inplace", false},
      {"instance_norm.weight", at::rand({4})},
      {"kernel_size", 2},
      {"layer_norm.weight", at::rand({8})},
      {"length", 2},
      {"mask", at::rand({2, 4, 6, 8}) > 0.5},
      {"matmul.other", at::randn({2, 4, 8, 6})},
      {"max", 2.01},
      {"min", -1.03},
      {"mm.mat2", at::randn({6, 4})},
      {"momentum", 0.1},
      {"negative_slope", 0.1},
      {"normalized_shape", sizes({8})},
      {"num_groups", 2},
      {"output_scale", kScale},
      {"output_size", 3},
      {"output_zero_point", kZeroPoint},
      {"p", 0.5},
      {"pad", sizes({1, 2})},
      {"padding", 1},
      {"prelu.weight", at::rand({4})},
      {"quantize_per_tensor.dtype", static_cast<int64_t>(at::kQUInt8)},
      {"repeat_interleave.repeats", 2},
      {"repeats", sizes({2, 1, 1, 1})},
      {"reshape_as.other", at::empty({8, 48})},
      {"roll.dims", sizes({1})},
      {"scale", kScale},
      {"sections", 2},
      {"shape", sizes({8, 48})},
      {"shifts", sizes({1})},
      {"size", sizes({3, 2, 4, 6, 8})},
      {"sizes", sizes({2, 4})},
      {"slice.end", 3},
      {"slice.start", 1},
      {"source", 1},
      {"split_size", 2},
      {"split_sizes", sizes({1, 1})},
      {"start", 1},
      {"tile.dims", sizes({2, 1, 1, 1})},
      {"train", false},
      {"training", false},
      {"type_as.other", at::empty({1}, at::kDouble)},
      {"unflatten.dim", 3},
      {"unsqueeze.dim", 1},
      {"upscale_factor", 2},
      {"use_input_stats", true},
      {"value", 0.5},
      {"view.size", sizes({8, 48})},
      {"view_as.other", at::empty({8, 48})},
      {"zero_point", kZeroPoint},
  };
  return kExamples;
}

std::optional<c10::IValue> example(std::string_view name, const c10::Argument& argument) {
  const auto own = examples().find(std::string(name) + "." + argument.name());
  if (own != examples().end()) return own->second;
  const auto any = argument.default_value() ? examples().end() : examples().find(argument.name());
  return any == examples().end() ? std::nullopt : std::optional(any->second);
}

std::optional<c10::IValue> fitted(const c10::IValue& value, const c10::Argument& argument) {
  auto type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  const bool wants_list = type->kind() == c10::TypeKind::ListType;
  if (wants_list && value.isInt())
    return c10::IValue(
        std::vector<int64_t>(static_cast<std::size_t>(argument.N().value_or(1)), value.toInt()));
  const bool is_list = value.isIntList() || value.isList();
  if (wants_list != is_list) return std::nullopt;
  if (value.isTensor() != (type->kind() == c10::TypeKind::TensorType)) return std::nullopt;
  return value;
}

/// The arguments of an overload; empty where none is known for one of them.
std::optional<Stack> arguments(const c10::FunctionSchema& schema, std::string_view name,
                               const Tensors& tensors) {
  Stack stack;
  std::size_t next = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    const bool is_tensor = argument.type()->kind() == c10::TypeKind::TensorType;
    const bool is_first = stack.empty();
    if (is_first && argument.type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      stack.emplace_back(tensors);
      continue;
    }
    if (is_first && (!is_tensor || examples().contains(std::string(name) + "." + argument.name())))
      return std::nullopt;
    const auto known = is_first ? std::nullopt : example(name, argument);
    if (known) {
      const auto value = fitted(*known, argument);
      if (!value) return std::nullopt;
      stack.push_back(*value);
    } else if (is_tensor && next < tensors.size()) {
      stack.emplace_back(tensors[next++]);
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    } else if (argument.type()->kind() == c10::TypeKind::OptionalType) {
      stack.emplace_back();
    } else {
      return std::nullopt;
    }
  }
  return stack;
}

std::string qualified(std::string_view name) {
  return name.find(':') == std::string_view::npos ? "aten::" + std::string(name) : std::string(name);
}

bool exists(std::string_view name) {
  return !torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified(name))).empty();
}

struct Call {
  std::shared_ptr<torch::jit::Operator> op{};
  Stack arguments{};
};

bool reads_list(const torch::jit::Operator& op) {
  const auto& arguments = op.schema().arguments();
  return !arguments.empty() && arguments.front().type()->kind() == c10::TypeKind::ListType;
}

/// A call of the first overload whose arguments are known; of one of a list of tensors where there is no
/// other.
Call call_of(std::string_view name, const Tensors& tensors) {
  const std::string_view plain = is_in_place(name) ? name.substr(0, name.size() - 1) : name;
  for (const bool of_lists : {false, true}) {
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified(name)))) {
      const std::string& overload = op->schema().overload_name();
      if (overload.find("out") != std::string::npos || overload == "vec" || reads_list(*op) != of_lists)
        continue;
      if (auto stack = arguments(op->schema(), plain, tensors))
        return {.op = op, .arguments = std::move(*stack)};
    }
  }
  throw std::runtime_error("no overload of " + std::string(name) + " whose arguments have an example");
}

c10::IValue result_of(std::string_view name, const Tensors& tensors) {
  Call call = call_of(name, tensors);
  call.op->getOperation()(call.arguments);
  return call.arguments.back();
}

/// The tensors that an operator returns.
Tensors results(std::string_view name, const Tensors& tensors) {
  const c10::IValue result = result_of(name, tensors);
  return result.isTensor() ? Tensors{result.toTensor()} : result.toTensorVector();
}
Tensor result(const OperatorTraits& row, const Tensors& tensors) {
  Tensors all = results(row.name, tensors);
  EXPECT_FALSE(all.empty());
  for (Tensor& each : all) each = each.contiguous().flatten();
  return all.size() == 1 ? results(row.name, tensors).front() : at::cat(all);
}

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

std::vector<int64_t> shape_for(std::string_view name) {
  if (contains(name, "1d") || name == "bmm") return {2, 4, 6};
  if (contains(name, "3d")) return {2, 4, 4, 6, 6};
  if (name == "t" || name == "mm") return {4, 6};
  return name == "squeeze" ? std::vector<int64_t>{2, 1, 6, 8} : std::vector<int64_t>{2, 4, 6, 8};
}

/// Between -5 and 5; of operators that are steep somewhere, where they are defined and tame.
Tensor random_values(const OperatorTraits& row, at::IntArrayRef shape) {
  if (row.name == "acosh") return at::rand(shape) + 1.05;
  return row.steep_in ? at::rand(shape) * 0.9 + 0.05 : at::rand(shape) * 10 - 5;
}

/// As the operand of a row: operators of quantized tensors read these.
Tensor as_operand(const OperatorTraits& row, const Tensor& values) {
  if (row.name == "_make_per_tensor_quantized_tensor") return (values + 5).mul(20).to(at::kByte);
  const bool is_quantized =
      contains(row.name, "quantized::") || row.name == "dequantize" || row.name == "int_repr";
  return is_quantized ? at::quantize_per_tensor(values, kScale, kZeroPoint, at::kQUInt8) : values;
}

Tensor operand(const OperatorTraits& row) { return as_operand(row, random_values(row, shape_for(row.name))); }
Tensors operands(const OperatorTraits& row) { return {operand(row), operand(row)}; }

Tensor as_float(const Tensor& tensor) {
  return (tensor.is_quantized() ? tensor.dequantize() : tensor).to(at::kFloat);
}

Tensor bits(const Tensor& tensor) { return tensor.contiguous().view(at::kInt).flatten(); }
Tensor sorted_bits(const Tensor& tensor) { return std::get<0>(bits(tensor).sort()); }
bool are_of(const Tensor& some, const Tensor& all) {
  return at::isin(bits(some), bits(all)).all().item<bool>();
}

/// Equal bit by bit, but for kernels that compute the ends of a row by other instructions.
bool is_near(const Tensor& a, const Tensor& b) {
  return at::allclose(as_float(a), as_float(b), 1e-5, 1e-6, true);
}

class TraitsTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
};

TEST_F(TraitsTest, EveryRowNamesAnOperator) {
  for (const OperatorTraits& row : rows_with_operator()) EXPECT_TRUE(exists(row.name)) << row.name;
}

TEST_F(TraitsTest, NoTwoRowsHaveOneName) {
  for (const OperatorTraits& row : all()) EXPECT_EQ(find(row.name), &row) << row.name;
}

TEST_F(TraitsTest, OtherNamesOfAnOperatorDoTheSame) {
  for (const OperatorTraits& row : rows_with_operator()) {
    for (const std::string_view other : row.also) {
      if (other.empty()) continue;
      EXPECT_EQ(find(other), find(row.name)) << other;
      if (!exists(other)) continue;
      const Tensors tensors = operands(row);
      EXPECT_TRUE(at::equal(result(row, tensors), results(other, tensors).front())) << other;
    }
  }
}

TEST_F(TraitsTest, InPlaceFormsDoTheSameInTheMemoryOfTheOperand) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return exists(std::string(each.name) + "_"); })) {
    SCOPED_TRACE(row.name);
    const Tensors tensors = operands(row);
    const Tensor expected = result(row, tensors);
    Tensors written{tensors[0].clone(), tensors[1]};
    const void* memory = written[0].data_ptr();
    const Tensor made = results(std::string(row.name) + "_", written).front();
    EXPECT_EQ(made.data_ptr(), memory);
    EXPECT_EQ(made.sizes(), expected.sizes());
    EXPECT_TRUE(is_near(made, expected));
    EXPECT_EQ(find("aten::" + std::string(row.name) + "_"), find(row.name));
  }
}

TEST_F(TraitsTest, WhatRearrangesHasEachValueOnce) {
  for (const OperatorTraits& row : rows_with(Values::Rearranged)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(sorted_bits(result(row, {x})), sorted_bits(x))) << row.name;
  }
}

TEST_F(TraitsTest, WhatSelectsDoesSoByPlace) {
  for (const OperatorTraits& row : rows_with(Values::Selected)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    EXPECT_TRUE(are_of(y, x)) << row.name;
    EXPECT_TRUE(at::equal(result(row, {-x}), -y)) << row.name;
  }
}

TEST_F(TraitsTest, WhatJoinsHasEachValueOfAllOperandsOnce) {
  for (const OperatorTraits& row : rows_with(Values::Joined)) {
    const Tensors tensors = operands(row);
    EXPECT_TRUE(at::equal(sorted_bits(result(row, tensors)), sorted_bits(at::cat(tensors)))) << row.name;
  }
}

TEST_F(TraitsTest, WhatChoosesHasValuesOfItsOperands) {
  for (const OperatorTraits& row : rows_with(Values::Chosen)) {
    const Tensors tensors = operands(row);
    const Tensor known = row.has(ElementwiseOfTwo) ? at::cat(tensors) : tensors[0];
    const Tensor y = result(row, tensors);
    EXPECT_TRUE(are_of(y, known)) << row.name;
    EXPECT_FALSE(at::equal(result(row, {-tensors[0], -tensors[1]}), -y)) << row.name << " compares nothing";
  }
}

TEST_F(TraitsTest, WhatFillsAddsOneConstant) {
  for (const OperatorTraits& row : rows_with(Values::Filled)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    const Tensor added = bits(y).masked_select(at::isin(bits(y), bits(x)).logical_not());
    EXPECT_EQ(std::get<0>(at::_unique(added)).numel(), 1) << row.name;
    EXPECT_LT(added.numel(), y.numel()) << row.name;
  }
}

TEST_F(TraitsTest, WhatConvertsHasTheSameNumbers) {
  for (const OperatorTraits& row : rows_with(Values::Converted)) {
    const Tensor x = operand(row);
    const Tensor y = result(row, {x});
    EXPECT_EQ(y.scalar_type(), at::kDouble) << row.name;
    EXPECT_TRUE(at::equal(y.to(at::kFloat), x)) << row.name;
  }
}

TEST_F(TraitsTest, WhatComputesHasOtherValues) {
  for (const OperatorTraits& row : rows_with(Values::Computed)) {
    if (row.has(IsIdentity) || row.has(ReadsShapeOnly)) continue;
    const Tensors tensors = operands(row);
    const Tensor y = result(row, tensors);
    if (y.scalar_type() == at::kFloat && tensors[0].scalar_type() == at::kFloat) {
      EXPECT_FALSE(are_of(y, tensors[0])) << row.name;
    }
  }
}

TEST_F(TraitsTest, RankShapeAndOrderAreKept) {
  for (const OperatorTraits& row : rows_with(KeepsRank)) {
    const Tensors tensors = operands(row);
    for (const Tensor& y : results(row.name, tensors)) EXPECT_EQ(y.dim(), tensors[0].dim()) << row.name;
  }
  for (const OperatorTraits& row : rows_with(KeepsShape)) {
    const Tensors tensors = operands(row);
    EXPECT_EQ(result(row, tensors).sizes(), tensors[0].sizes()) << row.name;
  }
  for (const OperatorTraits& row : rows_with(KeepsOrder)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(result(row, {x}).flatten().to(at::kFloat), x.flatten())) << row.name;
  }
}

TEST_F(TraitsTest, ImagesStayChannelsLast) {
  for (const OperatorTraits& row : rows_with(KeepsLayout)) {
    Tensors tensors;
    for (int i = 0; i < 2; ++i) {
      const Tensor values = random_values(row, {2, 4, 6, 8}).contiguous(at::MemoryFormat::ChannelsLast);
      tensors.push_back(as_operand(row, values));
    }
    const Tensor y = result(row, tensors);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast)) << row.name;
    EXPECT_FALSE(y.is_contiguous()) << row.name;
  }
}

TEST_F(TraitsTest, Bfloat16StaysBfloat16) {
  for (const OperatorTraits& row : rows_with(KeepsDtype)) {
    if (contains(row.name, "quantized::")) continue;
    const Tensor x = operand(row).to(at::kBFloat16);
    for (const Tensor& y : results(row.name, {x, x})) EXPECT_EQ(y.scalar_type(), at::kBFloat16) << row.name;
  }
}

TEST_F(TraitsTest, ViewsAreMemoryOfTheOperand) {
  for (const OperatorTraits& row : rows_with(IsView)) {
    const Tensor x = operand(row);
    for (const Tensor& y : results(row.name, {x})) EXPECT_TRUE(y.is_alias_of(x)) << row.name;
  }
}

TEST_F(TraitsTest, ElementwiseOperatorsReadTheValuesInTheSamePlaceAlone) {
  for (const Trait trait : {Elementwise, ElementwiseOfTwo}) {
    for (const OperatorTraits& row : rows_with(trait)) {
      SCOPED_TRACE(row.name);
      Tensors tensors;
      Tensors changed;
      const Tensor stays = at::rand(shape_for(row.name)) > 0.5;
      for (int i = 0; i < 2; ++i) {
        const Tensor values = random_values(row, shape_for(row.name));
        tensors.push_back(as_operand(row, values));
        changed.push_back(as_operand(row, at::where(stays, values, random_values(row, values.sizes()))));
      }
      const Tensor y = as_float(result(row, tensors));
      const Tensor z = as_float(result(row, changed));
      EXPECT_EQ(y.sizes(), stays.sizes());
      EXPECT_TRUE(is_near(y.masked_select(stays), z.masked_select(stays)));
      EXPECT_FALSE(at::equal(y, z));
    }
  }
}

TEST_F(TraitsTest, ElementwiseOperatorsDoTheSameInAllPlaces) {
  for (const Trait trait : {Elementwise, ElementwiseOfTwo}) {
    for (const OperatorTraits& row : rows_with(trait)) {
      const Tensors values{random_values(row, {2, 4, 6, 8}), random_values(row, {2, 4, 6, 8})};
      const Tensor places = at::randperm(values[0].numel());
      Tensors moved;
      Tensors tensors;
      for (const Tensor& each : values) {
        tensors.push_back(as_operand(row, each));
        moved.push_back(as_operand(row, each.flatten().index_select(0, places).view(each.sizes())));
      }
      const Tensor expected = as_float(result(row, tensors)).flatten().index_select(0, places);
      EXPECT_TRUE(is_near(as_float(result(row, moved)).flatten(), expected)) << row.name;
    }
  }
}

TEST_F(TraitsTest, MonotoneOperatorsKeepTheOrderOfNumbers) {
  for (const OperatorTraits& row : rows_with(Monotone)) {
    const Tensor x = std::get<0>(operand(row).flatten().sort());
    const Tensor y = result(row, {x});
    const Tensor steps = y.slice(0, 1) - y.slice(0, 0, -1);
    EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << row.name;
    EXPECT_GE(steps.min().item<double>(), -1e-6) << row.name;
  }
}

TEST_F(TraitsTest, RoundingBeforeAnOperatorThatCommutesWithItDoesNotShowAfterIt) {
  const auto rounded = [](const Tensor& x) {
    return at::quantize_per_tensor(x, kScale, kZeroPoint, at::kQUInt8);
  };
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return commutes_with_rounding(&each); })) {
    SCOPED_TRACE(row.name);
    const Tensors tensors = operands(row);
    const Tensors before{rounded(tensors[0]), rounded(tensors[1])};
    const Tensor expected = rounded(result(row, tensors));
    const Tensor twice = rounded(result(row, {before[0].dequantize(), before[1].dequantize()}));
    EXPECT_TRUE(at::equal(expected.int_repr(), twice.int_repr()));
    Tensor on_bytes;
    try {
      on_bytes = result(row, before);
    } catch (const std::exception&) {
      continue;  // it has no kernel for quantized tensors
    }
    EXPECT_EQ(on_bytes.q_scale(), kScale);
    EXPECT_EQ(on_bytes.q_zero_point(), kZeroPoint);
    EXPECT_TRUE(at::equal(on_bytes.int_repr(), expected.int_repr()));
  }
}

TEST_F(TraitsTest, FactorsPass) {
  for (const OperatorTraits& row : rows_where(
           [](const OperatorTraits& each) { return each.has(PassesFactors) || moves_values(&each); })) {
    Tensors tensors = operands(row);
    const std::size_t factors = row.has(ElementwiseOfTwo) ? 2 : 1;
    const Tensor y = result(row, tensors);
    for (std::size_t i = 0; i < factors; ++i) {
      Tensors scaled = tensors;
      scaled[i] = scaled[i] * -3;
      EXPECT_TRUE(at::allclose(result(row, scaled), y * -3, 1e-4, 1e-4)) << row.name;
    }
  }
}

/// The value that a call gives a bound of a clamp; empty where it has none.
std::optional<double> bound_of(const Bound& bound, const Call& call) {
  if (bound.number) return bound.number;
  if (bound.argument.empty()) return std::nullopt;
  const auto index = call.op->schema().argumentIndexWithName(std::string(bound.argument));
  return call.arguments.at(static_cast<std::size_t>(index.value())).toScalar().toDouble();
}

TEST_F(TraitsTest, ClampsLimitTheirOperandToTheirBounds) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.clamp.has_value(); })) {
    SCOPED_TRACE(row.name);
    const Tensor x = operand(row);
    const Call call = call_of(row.name, {x});
    const auto lowest = bound_of(row.clamp->lowest, call);
    const auto highest = bound_of(row.clamp->highest, call);
    EXPECT_TRUE(lowest || highest);
    Tensor expected = x;
    if (lowest) expected = expected.clamp_min(*lowest);
    if (highest) expected = expected.clamp_max(*highest);
    EXPECT_TRUE(at::equal(result(row, {x}), expected));
  }
}

TEST_F(TraitsTest, SaturatingOperatorsDoNotTellValuesOutsideOfTheirBoundsApart) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.saturates.has_value(); })) {
    const auto check = [&](double bound, double outwards) {
      const Tensor outside = bound + outwards * at::rand({2, 4, 6, 8}) * 100;
      const Tensor at_bound = result(row, {at::full({1}, bound)});
      EXPECT_TRUE(result(row, {outside}).eq(at_bound).all().item<bool>()) << row.name << " " << bound;
      EXPECT_FALSE(at::equal(result(row, {at::full({1}, bound - outwards * 0.01)}), at_bound)) << row.name;
    };
    if (row.saturates->lowest) check(*row.saturates->lowest, -1);
    if (row.saturates->highest) check(*row.saturates->highest, 1);
  }
}

TEST_F(TraitsTest, IdentitiesReturnTheirOperandInEvaluation) {
  for (const OperatorTraits& row : rows_with(IsIdentity)) {
    const Tensor x = operand(row);
    EXPECT_TRUE(at::equal(bits(result(row, {x})), bits(x))) << row.name;
  }
}

TEST_F(TraitsTest, WhatReadsTheShapeDoesNotSeeTheValues) {
  for (const OperatorTraits& row : rows_with(ReadsShapeOnly)) {
    const Tensors tensors = operands(row);
    const c10::IValue of_one = result_of(row.name, {tensors[0]});
    EXPECT_FALSE(of_one.isTensor()) << row.name;
    EXPECT_EQ(of_one, result_of(row.name, {tensors[1]})) << row.name;
  }
}

/// The slope of an operator in one of its operands, the others being one, over a wide range and close to what
/// limits where functions are defined.
Tensor slopes(const OperatorTraits& row) {
  const Tensor near = at::pow(10.0, at::linspace(-6, -2, 50, at::kDouble));
  Tensor x = at::cat({near, 1 - near, 1 + near, at::linspace(0.01, 0.99, 500, at::kDouble),
                      at::linspace(1.01, 1000, 2000, at::kDouble)});
  x.set_requires_grad(true);
  Tensors tensors(2, at::ones_like(x).detach());
  tensors[*row.steep_in] = x;
  const Tensor y = result(row, tensors);
  const Tensor slope = torch::autograd::grad({y.sum()}, {x}).front().abs();
  return slope.masked_select(at::isfinite(slope).logical_and(at::isfinite(y)));
}

TEST_F(TraitsTest, SteepOperatorsAreFarSteeperSomewhereThanElsewhere) {
  for (const OperatorTraits& row :
       rows_where([](const OperatorTraits& each) { return each.steep_in.has_value(); })) {
    const Tensor slope = slopes(row);
    EXPECT_GT(slope.max().item<double>(), 100 * slope.median().item<double>()) << row.name;
  }
}

TEST_F(TraitsTest, AllSpellingsOfAnOperatorFindItsRow) {
  for (const char* name : {"aten::leaky_relu", "aten::leaky_relu_", "torch.nn.LeakyReLU", "leaky_relu",
                           "torch.nn.functional.leaky_relu", "torch.nn.functional.leaky_relu_"}) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_EQ(find(name)->name, "leaky_relu") << name;
  }
  const std::map<std::string_view, std::string_view> names{
      {"torch.nn.BatchNorm2d", "batch_norm"},
      {"torch.nn.Dropout2d", "feature_dropout"},
      {"torch.nn.functional._max_pool2d", "max_pool2d"},
      {"torch.concatenate", "cat"},
      {"operator.truediv", "div"},
      {"torch.nn.PReLU", "prelu"},
      {"torch.nn.AdaptiveAvgPool2d", "adaptive_avg_pool2d"},
      {"torch.nn.ConstantPad3d", "constant_pad_nd"},
      {"quantized::elu", "quantized::elu"}};
  for (const auto& [name, row] : names) {
    ASSERT_NE(find(name), nullptr) << name;
    EXPECT_EQ(find(name)->name, row) << name;
  }
}

TEST_F(TraitsTest, NamesOfOtherThingsFindNoRow) {
  for (const char* name : {"prim::relu", "quantized::relu", "my.package.ReLU",
                           "torch.ao.nn.intrinsic.ConvReLU2d", "torch.nn.Conv2d", "aten::conv2d", ""})
    EXPECT_EQ(find(name), nullptr) << name;
}

}  // namespace
}  // namespace tsq::operators
