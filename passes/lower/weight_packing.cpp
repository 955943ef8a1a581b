#include "passes/lower/weight_packing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/error.h>

#include <algorithm>
#include <optional>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/functional_weighted.h"
#include "passes/context/nodes.h"
#include "passes/place/rounding.h"
#include "torchscript/modules/pack_when_loaded.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

std::string bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  const at::Tensor flat = tensor.contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

/// The same for tensors that are one in memory: files keep the storage of a parameter with two owners, not
/// the tensor.
std::string memory_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} {} {}", fmt::ptr(tensor.const_data_ptr()), fmt::join(tensor.sizes(), ","),
                     fmt::join(tensor.strides(), ","));
}

/// The weight that a layer multiplies with, be it a module's or F.linear's or F.conv*'s; empty for other
/// nodes, and where it is not known.
std::optional<ir::Weighted> weighted_of_node(const ir::Model& model, const ir::Node* node) {
  if (const ir::Weighted* weighted = weighted_at(model, node)) return *weighted;
  const bool is_function = node->inputs().size() >= 2 && is_functional_layer(model, node);
  return is_function ? operators::functional_parameters(model, node) : std::nullopt;
}

constexpr std::string_view kFloat16Prepack = "quantized::linear_prepack_fp16";

/// The layout in which packing takes the weight of a convolution as it is: channels last.
at::Tensor in_packing_layout(const at::Tensor& weight) {
  constexpr int64_t kSignal = 3;
  constexpr int64_t kImage = 4;
  constexpr int64_t kVolume = 5;
  switch (weight.dim()) {
    case kSignal:
      return weight.unsqueeze(2).contiguous(at::MemoryFormat::ChannelsLast).squeeze(2);
    case kImage:
      return weight.contiguous(at::MemoryFormat::ChannelsLast);
    case kVolume:
      return weight.contiguous(at::MemoryFormat::ChannelsLast3d);
    default:
      return weight.contiguous();
  }
}

/// What tells packed weights apart; `call` where calls of one layer do not share theirs.
std::string key_of(const ir::Weighted& weighted, std::string_view prepack, const std::string& call) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", memory_of(weighted.weight), memory_of(weighted.bias),
                     prepack, fmt::join(weighted.stride, ","), fmt::join(weighted.padding, ","),
                     weighted.padding_name, fmt::join(weighted.dilation, ","), weighted.groups, call,
                     bytes_of(weighted.weight_qparams->scale));
}

/// Whether a table of words has the rows that a layer's weight is rounded to (hold_tied_tables_once).
bool is_tied(const ir::EmbeddingTable& table, const ir::Weighted& weighted) {
  return table.weight.sizes() == weighted.weight.sizes() &&
         at::equal(table.weight_qparams->scale, weighted.weight_qparams->scale);
}

}  // namespace

const std::string* refusal_of(const PackingRefusals& refusals, std::string_view prepack,
                              const ir::Weighted& weighted) {
  const auto found = refusals.find({std::string(prepack), weighted.weight.const_data_ptr()});
  return found == refusals.end() ? nullptr : &found->second;
}

bool is_packing(const ir::Node* node) {
  const std::string_view kind = node->kind().toQualString();
  return kind.starts_with("quantized::") && kind.ends_with("_prepack");
}

WeightPacking::WeightPacking(ir::Model& model, const kernels::Target& target)
    : model_(model), target_(target) {
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (const auto weighted = weighted_of_node(model, node)) ++calls_[weighted->weight.const_data_ptr()];
  }
  for (const ir::ModuleCall& call : model.calls) {
    if (call.embedding && call.embedding->weight_qparams &&
        torchscript::are_symmetric_rows(*call.embedding->weight_qparams))
      tables_.push_back(*call.embedding);
  }
  for (const auto& [name, known] : model.packed_weights) ++calls_[known.weighted.weight.const_data_ptr()];
}

bool WeightPacking::is_shared(const ir::Weighted& weighted) const {
  const void* memory = weighted.weight.const_data_ptr();
  const auto is_several = [&](const auto& counts) {
    const auto found = counts.find(memory);
    return found != counts.end() && found->second > 1;
  };
  return is_several(calls_) || is_several(packings_) ||
         std::ranges::any_of(tables_,
                             [&](const ir::EmbeddingTable& table) { return is_tied(table, weighted); });
}

ir::Value* WeightPacking::packed(const ir::Weighted& weighted, const PackingSite& site) {
  const kernels::KernelUse use{
      .target = target_, .model = model_, .op = site.op, .kernel = site.kernel, .weighted = &weighted};
  const bool is_apart = fault_of(use, kernels::Precaution::PackForEachCall) != nullptr;
  const bool when_loaded = fault_of(use, kernels::Precaution::PackWhenLoaded) != nullptr;
  const std::string call = is_apart ? fmt::format("{}", fmt::ptr(site.op)) : std::string();
  // oneDNN's packed params keep what their first call has set up, by the ranges that it is given: a kernel
  // that is given none crashes on that of another, or computes its ReLU.
  const bool finds_range = site.kernel.find("_dynamic") != std::string_view::npos;
  const auto key = fmt::format("{} {} {} {}", key_of(weighted, site.prepack, call), site.input_has_zero_point,
                               site.zero_columns, finds_range ? site.kernel : "");
  const auto [found, is_new] = model_.packed_names.try_emplace(key);
  if (is_new) {
    found->second = unique_name(site.path);
    ++packings_[weighted.weight.const_data_ptr()];
    to_pack_.push_back({.weighted = weighted,
                        .prepack = std::string(site.prepack),
                        .name = found->second,
                        .when_loaded = when_loaded,
                        .input_has_zero_point = site.input_has_zero_point,
                        .zero_columns = site.zero_columns});
  }
  const c10::TypePtr type = kernels::packed_type(site.prepack);
  ir::Value* held = ir::read_attribute(site.before, model_.graph->inputs().at(0), found->second, type);
  if (!when_loaded) return held;
  owners_.emplace_back(held, found->second);
  return ir::read_attribute(site.before, held, "packed", type);
}

std::string WeightPacking::unique_name(const std::string& path) {
  const std::string base = ir::unique_attribute_name(model_, path + "_packed_params");
  std::string name = base;
  for (int& number = last_number_[base]; !taken_.insert(name).second;)
    name = fmt::format("{}_{}", base, ++number);
  return name;
}

at::Tensor WeightPacking::known_quantized(const Packing& packing) const {
  const QParams& qparams = *packing.weighted.weight_qparams;
  for (const auto& [name, known] : model_.packed_weights) {
    const QParams& other = *known.weighted.weight_qparams;
    if (known.quantized.defined() &&
        known.weighted.weight.const_data_ptr() == packing.weighted.weight.const_data_ptr() &&
        memory_of(known.weighted.weight) == memory_of(packing.weighted.weight) &&
        bytes_of(other.scale) == bytes_of(qparams.scale) &&
        bytes_of(other.zero_point) == bytes_of(qparams.zero_point) && other.axis == qparams.axis)
      return known.quantized;
  }
  return {};
}

void WeightPacking::share_quantized() {
  for (const Packing& packing : to_pack_)
    model_.packed_weights.emplace(packing.name, ir::PackedWeight{packing.prepack, packing.weighted});
  for (Packing& packing : to_pack_) {
    const bool is_float16 =
        packing.prepack == kFloat16Prepack || packing.weighted.weight_qparams->dtype == c10::ScalarType::Half;
    if (is_float16 || packing.zero_columns > 0 || !is_shared(packing.weighted)) continue;
    packing.quantized = known_quantized(packing);
    if (!packing.quantized.defined())
      packing.quantized = in_packing_layout(kernels::quantized_weight(packing.weighted));
    model_.packed_weights.at(packing.name).quantized = packing.quantized;
  }
}

bool WeightPacking::pack_all(PackingRefusals& refusals) {
  share_quantized();
  const kernels::EnginePacking engine(target_);  // the workers pack under this hold
  at::parallel_for(0, static_cast<int64_t>(to_pack_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack(to_pack_[static_cast<std::size_t>(i)]);
  });
  bool complete = true;
  for (const Packing& packing : to_pack_) {
    if (packing.refusal.empty()) {
      model_.attributes.add({.name = packing.name, .type = packing.result.type(), .value = packing.result});
    } else {
      refusals[{packing.prepack, packing.weighted.weight.const_data_ptr()}] = packing.refusal;
      complete = false;
    }
  }
  if (!complete) return false;
  for (const auto& [value, name] : owners_) value->setType(model_.attributes.attr(name).type());
  return true;
}

void WeightPacking::pack(Packing& packing) {
  ir::Weighted weighted = packing.weighted;
  if (packing.zero_columns > 0)
    weighted.weight = at::constant_pad_nd(weighted.weight.detach(), {0, packing.zero_columns});
  try {
    packing.result = packing.when_loaded
                         ? torchscript::pack_when_loaded(packing.prepack, weighted,
                                                         packing.input_has_zero_point, packing.quantized)
                               ._ivalue()
                         : kernels::pack(packing.prepack, weighted, packing.quantized);
  } catch (const Error& error) {
    packing.refusal = error.problem();
  }
}

}  // namespace tsq::passes
