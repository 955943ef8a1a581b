// Embedding tables whose rows are quantized, each by its own range.
//
// The kernels `quantized::embedding_bag_*` take a mode and ignore it, and know no padding_idx: they always
// add up. A mean is their sum divided by the lengths of the bags; a maximum is taken of the rows that were
// looked up; the row of padding_idx is zero in the table, and not counted.

#include "torchscript/modules/embedding.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "operators/inlined_graph.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using c10::ScalarType;
using ir::EmbeddingTable;
using torch::jit::Module;
using Mode = EmbeddingTable::Mode;

const c10::Symbol kEmbeddingBag = c10::Symbol::fromQualString("aten::embedding_bag");
const c10::Symbol kRenorm = c10::Symbol::fromQualString("aten::embedding_renorm_");

bool is_bag(Symbol type) {
  return type.name.ends_with("EmbeddingBag") || type.name.ends_with("embedding_bag");
}

std::optional<int64_t> optional_int(const std::optional<c10::IValue>& value) {
  return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

/// The argument of forward that a value is, looked for through views; 0 when it is none.
std::size_t argument_after(const torch::jit::Value* value) {
  while (value->node()->kind() != c10::prim::Param && !value->node()->inputs().empty())
    value = value->node()->input(0);
  return value->node()->kind() == c10::prim::Param ? value->offset() : 0;
}

std::optional<Mode> mode_of(const std::optional<c10::IValue>& value) {
  if (!value) return std::nullopt;
  if (value->isInt() && value->toInt() >= 0 && value->toInt() <= 2) return static_cast<Mode>(value->toInt());
  if (!value->isString()) return std::nullopt;
  const std::string& name = value->toStringRef();
  if (name == "sum") return Mode::Sum;
  if (name == "mean") return Mode::Mean;
  return name == "max" ? std::optional(Mode::Max) : std::nullopt;
}

/// A traced module keeps no attributes but the weight: its operator tells the rest.
bool take_traced(EmbeddingTable& table, const ir::ModuleCall& call) {
  const auto graph = operators::inlined_graph(*call.module, call.method);
  if (graph == nullptr || operators::first_of_kind(*graph, kRenorm) != nullptr) return false;
  if (!table.is_bag) return true;
  const torch::jit::Node* bag = operators::first_of_kind(*graph, kEmbeddingBag);
  if (bag == nullptr || bag->inputs().size() < 8) return false;
  const auto mode = mode_of(torch::jit::toIValue(bag->input(4)));
  const auto include_last_offset = torch::jit::toIValue(bag->input(7));
  if (!mode || !include_last_offset || !include_last_offset->isBool()) return false;
  table.mode = *mode;
  table.include_last_offset = include_last_offset->toBool();
  if (bag->inputs().size() > 8) table.padding_idx = optional_int(torch::jit::toIValue(bag->input(8)));
  return true;
}

bool take_scripted(EmbeddingTable& table, const Module& module) {
  if (!table.is_bag) return true;
  const auto constant = [&](const char* name) { return module.attr(name, c10::IValue()); };
  const auto mode = mode_of(constant("mode"));
  const c10::IValue include_last_offset = constant("include_last_offset");
  if (!mode || !include_last_offset.isBool()) return false;
  table.mode = *mode;
  table.include_last_offset = include_last_offset.toBool();
  table.padding_idx = optional_int(constant("padding_idx"));
  return true;
}

int bits_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::QUInt4x2:
      return 4;
    case ScalarType::QUInt2x4:
      return 2;
    default:
      return 8;
  }
}

int bits_of(const EmbeddingTable& table) { return bits_of(table.weight_qparams->dtype); }

/// A whole tensor's scale or zero point for each row of its own.
at::Tensor for_each_row(const at::Tensor& value, int64_t rows) {
  return value.to(at::kFloat).reshape({-1}).expand({rows}).contiguous();
}

struct RowQParams {
  at::Tensor scale;       ///< float32, [rows]
  at::Tensor zero_point;  ///< float32, [rows], for codes from 0 on
};

RowQParams row_qparams(const EmbeddingTable& table) {
  constexpr double kSignedOffset = 128;
  const QParams& qparams = *table.weight_qparams;
  const int64_t rows = table.weight.size(0);
  RowQParams result{for_each_row(qparams.scale, rows), for_each_row(qparams.zero_point, rows)};
  if (qparams.dtype == ScalarType::QInt8) result.zero_point += kSignedOffset;
  return result;
}

/// Codes of less than 8 bits side by side in bytes, the first in the lowest bits.
at::Tensor in_whole_bytes(const at::Tensor& codes, int bits) {
  const int64_t per_byte = 8 / bits;
  const int64_t missing = (per_byte - codes.size(1) % per_byte) % per_byte;
  const at::Tensor groups = at::constant_pad_nd(codes, {0, missing}).reshape({codes.size(0), -1, per_byte});
  at::Tensor bytes = groups.select(2, 0).clone();
  for (int64_t i = 1; i < per_byte; ++i) bytes.bitwise_or_(groups.select(2, i).bitwise_left_shift(i * bits));
  return bytes;
}

/// The row that adds nothing to a bag. A maximum leaves it out in another way.
std::optional<int64_t> zero_row(const EmbeddingTable& table) {
  if (!table.is_bag || !table.padding_idx || table.mode == Mode::Max) return std::nullopt;
  return at::maybe_wrap_dim(*table.padding_idx, table.weight.size(0));
}

std::string python(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : std::string("None");
}
const char* python(bool value) { return value ? "True" : "False"; }

constexpr const char* kBagArguments =
    R"(def forward(self, input, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None):
  weights = per_sample_weights
  if input.dim() == 2:
    assert offsets is None, "if input is 2D, then offsets has to be None"
    starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype)
  else:
    assert offsets is not None, "offsets has to be a 1D Tensor but got None"
    starts = offsets
  if weights is not None:
    weights = weights.reshape([-1]).contiguous()
  indices = input.reshape([-1]).contiguous()
)";

/// Forward of an embedding in float; `weight` is an expression.
std::string float_source(const EmbeddingTable& table, const std::string& weight) {
  if (!table.is_bag)
    return fmt::format("def forward(self, input):\n  return torch.embedding({}, input)\n", weight);
  return fmt::format(
      "{}  return torch.embedding_bag({}, indices, starts, False, {}, False, weights, {}, {})[0]\n",
      kBagArguments, weight, static_cast<int>(table.mode), python(table.include_last_offset),
      python(table.padding_idx));
}

std::string kernel_name(const EmbeddingTable& table) {
  const int bits = bits_of(table);
  return fmt::format("embedding_bag_{}_rowwise_offsets", bits == 8 ? "byte" : fmt::format("{}bit", bits));
}

/// A call of the kernel that adds up rows.
std::string kernel_call(const EmbeddingTable& table, const std::string& arguments) {
  const std::string call = fmt::format("quantized.{}(self.rows, {})", kernel_name(table), arguments);
  const int64_t per_byte = 8 / bits_of(table);
  const int64_t columns = table.weight.size(1);
  return columns % per_byte == 0 ? call : fmt::format("{}.narrow(1, 0, {})", call, columns);
}

/// The rows of `indices` one by one, as bags of one.
std::string looked_up(const EmbeddingTable& table, std::string_view indices) {
  return kernel_call(table, fmt::format("{}.reshape([-1, 1]).contiguous()", indices));
}

std::string sum_of_bags(const EmbeddingTable& table) {
  return kernel_call(table, fmt::format("indices, starts, False, 0, False, weights, None, {}",
                                        python(table.include_last_offset)));
}

/// How many rows each bag has, those of padding_idx left out; 1 for empty ones.
std::string lengths_of_bags(const EmbeddingTable& table) {
  std::string source =
      table.include_last_offset
          ? "  edges = starts\n"
          : "  edges = torch.cat([starts, torch.full([1], indices.numel(), dtype=starts.dtype)])\n";
  if (table.padding_idx) {
    source += fmt::format(
        "  counts = torch.cumsum(indices != {}, 0)\n"
        "  edges = torch.cat([torch.zeros([1], dtype=counts.dtype), counts]).index_select(0, edges)\n",
        *table.padding_idx);
  }
  return source + "  lengths = torch.diff(edges).clamp_min(1).unsqueeze(1)\n";
}

constexpr const char* kNoWeights =
    "  assert per_sample_weights is None, \"per_sample_weights are supported for mode 'sum' only\"\n";

/// The rows that were looked up become a table of their own, whose bags have a maximum.
std::string max_of_bags(const EmbeddingTable& table) {
  constexpr const char* kBag =
      "  return torch.embedding_bag(rows, numbers, starts, False, 2, False, None, {}, {})[0]\n";
  if (!table.padding_idx) {
    return fmt::format("  rows = {}\n  numbers = torch.arange(0, indices.numel(), dtype=starts.dtype)\n",
                       looked_up(table, "indices")) +
           fmt::format(fmt::runtime(kBag), python(table.include_last_offset), "None");
  }
  return fmt::format(
             "  padding = torch.full([1], {}, dtype=indices.dtype)\n"
             "  rows = {}\n"
             "  numbers = torch.arange(1, indices.numel() + 1, dtype=starts.dtype).masked_fill(indices == "
             "{}, 0)\n",
             *table.padding_idx, looked_up(table, "torch.cat([padding, indices])"), *table.padding_idx) +
         fmt::format(fmt::runtime(kBag), python(table.include_last_offset), "0");
}

std::string quantized_source(const EmbeddingTable& table) {
  if (!table.is_bag) {
    return fmt::format("def forward(self, input):\n  return {}.reshape(input.size() + [{}])\n",
                       looked_up(table, "input"), table.weight.size(1));
  }
  switch (table.mode) {
    case Mode::Sum:
      return fmt::format("{}  return {}\n", kBagArguments, sum_of_bags(table));
    case Mode::Mean:
      return fmt::format("{}{}{}  return {} / lengths\n", kBagArguments, kNoWeights, lengths_of_bags(table),
                         sum_of_bags(table));
    case Mode::Max:
      return fmt::format("{}{}{}", kBagArguments, kNoWeights, max_of_bags(table));
  }
  return {};
}

std::string class_of(const EmbeddingTable& table, std::string_view prefix) {
  return fmt::format("{}Embedding{}", prefix, table.is_bag ? "Bag" : "");
}

}  // namespace

std::vector<int64_t> traced_bag_arguments(const ir::ModuleCall& call) {
  if (!call.embedding || !call.embedding->is_bag || !call.module || call.module->hasattr("mode")) return {};
  const auto graph = operators::inlined_graph(*call.module, call.method);
  const torch::jit::Node* bag = graph == nullptr ? nullptr : operators::first_of_kind(*graph, kEmbeddingBag);
  if (bag == nullptr || bag->inputs().size() < 7) return {};
  constexpr std::array<std::size_t, 3> kIndicesOffsetsWeights{1, 2, 6};
  std::vector<int64_t> result;
  for (const std::size_t position : kIndicesOffsetsWeights) {
    const auto argument = static_cast<int64_t>(argument_after(bag->input(position)));
    result.push_back(std::ranges::find(result, argument) == result.end() ? argument : 0);
  }
  // Scripted code chooses among its arguments; only a trace reads all of them by the operator itself.
  const auto found = std::ranges::count_if(result, [](int64_t argument) { return argument != 0; });
  if (static_cast<std::size_t>(found) + 1 != graph->inputs().size()) return {};
  return result;
}

bool is_embedding(Symbol type) {
  return type.name == "torch.nn.Embedding" || type.name == "torch.nn.EmbeddingBag";
}

std::optional<EmbeddingTable> embedding_table(const ir::ModuleCall& call) {
  const c10::IValue weight = call.module ? call.module->attr("weight", c10::IValue()) : c10::IValue();
  if (!weight.isTensor() || !is_plain(weight.toTensor())) return std::nullopt;
  EmbeddingTable table{.weight = weight.toTensor(), .is_bag = is_bag(call.type)};
  const bool known =
      call.module->hasattr("max_norm") ? take_scripted(table, *call.module) : take_traced(table, call);
  return known ? std::optional(table) : std::nullopt;
}

std::string unquantizable(const EmbeddingTable& table, const QParams& qparams) {
  if (table.weight.scalar_type() != at::kFloat || table.weight.dim() != 2)
    return "its table is not a float32 tensor of two dimensions";
  if (table.weight.numel() == 0) return "its table is empty";
  if (!at::isfinite(table.weight).all().item<bool>())
    return "its table holds infinite values or NaN, which have no range";
  if (qparams.qscheme != c10::QScheme::PER_TENSOR_AFFINE && qparams.axis != 0)
    return "its weight observer has a scale for each column, the kernels for each row";
  return {};
}

Module float_embedding(const EmbeddingTable& table) {
  return written_module(class_of(table, "torch.nn.modules.sparse."), {parameter("weight", table.weight)},
                        float_source(table, "self.weight"));
}

Module reference_embedding(const EmbeddingTable& table) {
  const RowQParams qparams = row_qparams(table);
  return written_module(
      class_of(table, "tsq.Reference"),
      {{"weight", c10::TensorType::get(), table.weight.detach()},
       {"weight_scale", c10::TensorType::get(), qparams.scale},
       {"weight_zero_point", c10::TensorType::get(), qparams.zero_point}},
      float_source(table, fmt::format("torch.dequantize(torch.quantize_per_channel(self.weight, "
                                      "self.weight_scale, self.weight_zero_point, 0, {}))",
                                      static_cast<int>(ScalarType::QUInt8))));
}

Module quantized_embedding(const EmbeddingTable& table, const at::Tensor& rows) {
  return written_module(class_of(table, "tsq.Quantized"), {{"rows", c10::TensorType::get(), rows}},
                        quantized_source(table));
}

namespace {

RowCodes codes_of(const EmbeddingTable& table) {
  const RowQParams qparams = row_qparams(table);
  return {.codes = at::quantize_per_channel(table.weight.detach(), qparams.scale, qparams.zero_point, 0,
                                            ScalarType::QUInt8)
                       .int_repr(),
          .scales = qparams.scale.to(at::kFloat),
          .addends = (qparams.scale * qparams.zero_point * -1).to(at::kFloat)};
}

}  // namespace

std::optional<RowCodes> row_codes(const EmbeddingTable& table) {
  constexpr int kByte = 8;
  return bits_of(table) == kByte ? std::optional(codes_of(table)) : std::nullopt;
}

at::Tensor packed_rows(const EmbeddingTable& table) {
  const int bits = bits_of(table);
  const auto [codes, scale, smallest] = codes_of(table);
  at::Tensor scales = at::stack({scale, smallest}, 1);
  if (bits < 8) scales = scales.to(at::kHalf);
  const at::Tensor rows = at::cat({in_whole_bytes(codes, bits), scales.view(at::kByte)}, 1);
  if (const auto row = zero_row(table)) rows.select(0, *row).zero_();
  return rows;
}

int64_t bytes_of_row(int64_t columns, ScalarType dtype) {
  constexpr int kByte = 8;
  const int bits = bits_of(dtype);
  const std::size_t number = bits < kByte ? sizeof(at::Half) : sizeof(float);
  return (columns * bits + kByte - 1) / kByte + static_cast<int64_t>(2 * number);
}

bool has_same_rows(const EmbeddingTable& a, const EmbeddingTable& b) {
  const QParams& of_a = *a.weight_qparams;
  const QParams& of_b = *b.weight_qparams;
  return a.weight.is_alias_of(b.weight) && a.weight.const_data_ptr() == b.weight.const_data_ptr() &&
         a.weight.sizes() == b.weight.sizes() && a.weight.strides() == b.weight.strides() &&
         zero_row(a) == zero_row(b) && of_a.dtype == of_b.dtype && at::equal(of_a.scale, of_b.scale) &&
         at::equal(of_a.zero_point, of_b.zero_point);
}

std::string embedding_kernel(const EmbeddingTable& table) {
  return fmt::format("quantized::{}", kernel_name(table));
}

}  // namespace tsq::torchscript
