#include "operators/operator_calls.h"

#include <map>
#include <optional>
#include <stdexcept>

namespace tsq::operators::calls {
namespace {

using torch::jit::Stack;

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

bool reads_list(const torch::jit::Operator& op) {
  const auto& arguments = op.schema().arguments();
  return !arguments.empty() && arguments.front().type()->kind() == c10::TypeKind::ListType;
}

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

std::vector<OperatorTraits> rows_with_operator() {
  std::vector<OperatorTraits> rows(all().begin(), all().end());
  std::erase_if(rows, [](const OperatorTraits& row) { return row.name == "identity"; });
  return rows;
}

std::vector<OperatorTraits> rows_with(Trait trait) {
  return rows_where([&](const OperatorTraits& row) { return row.has(trait); });
}

std::vector<OperatorTraits> rows_with(Values values) {
  return rows_where([&](const OperatorTraits& row) { return row.values == values; });
}

bool exists(std::string_view name) {
  return !torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified(name))).empty();
}

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

std::vector<int64_t> shape_for(std::string_view name) {
  if (contains(name, "1d") || name == "bmm") return {2, 4, 6};
  if (contains(name, "3d")) return {2, 4, 4, 6, 6};
  if (name == "t" || name == "mm") return {4, 6};
  return name == "squeeze" ? std::vector<int64_t>{2, 1, 6, 8} : std::vector<int64_t>{2, 4, 6, 8};
}

Tensor random_values(const OperatorTraits& row, at::IntArrayRef shape) {
  if (row.name == "acosh") return at::rand(shape) + 1.05;
  return row.steep_in ? at::rand(shape) * 0.9 + 0.05 : at::rand(shape) * 10 - 5;
}

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
bool are_of(const Tensor& some, const Tensor& all) {
  return at::isin(bits(some), bits(all)).all().item<bool>();
}

bool is_near(const Tensor& a, const Tensor& b) {
  return at::allclose(as_float(a), as_float(b), 1e-5, 1e-6, true);
}

}  // namespace tsq::operators::calls
