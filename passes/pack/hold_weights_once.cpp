// Calls of one layer whose packed params differ, in their bias or for their engine, share the weight that
// these are packed of. Where packing copies it, a file would hold it once for each call.
//   linear(x, packed), linear(y, packed_1)   →   linear(x, held.packed), linear(y, held_1.packed), which are
//   packed of one weight when the file is loaded

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/transposes.h"
#include "passes/pack/passes.h"
#include "torchscript/modules/pack_when_loaded.h"

namespace tsq::passes {
namespace {

/// What reads the plain weight of packed params; empty for those that no file holds several times.
std::string unpack_of(const std::string& prepack) {
  const std::size_t suffix = prepack.rfind("_prepack");
  const bool is_packed_params = prepack.starts_with("quantized::") &&
                                suffix + std::string_view("_prepack").size() == prepack.size() &&
                                prepack.find("transpose") == std::string::npos;
  return is_packed_params ? prepack.substr(0, suffix) + "_unpack" : std::string();
}

/// Packed params, and the nodes that read them.
struct Packed {
  std::string name{};
  const ir::PackedWeight* weight{};
  std::vector<Node*> reads{};
};

/// Those that the graph reads.
std::vector<Packed> packed_in(Model& model) {
  std::map<std::string, std::vector<Node*>> reads;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::prim::GetAttr && node->input(0) == model.graph->inputs().at(0))
      reads[node->s(c10::attr::name)].push_back(node);
  }
  std::vector<Packed> found;
  for (const auto& [name, weight] : model.packed_weights) {
    if (const auto read = reads.find(name); read != reads.end())
      found.push_back({.name = name, .weight = &weight, .reads = read->second});
  }
  return found;
}

/// Whether saving packed params saves a copy of the weight that they were made of.
bool is_copied(const Model& model, const Packed& packed) {
  const std::string unpack = unpack_of(packed.weight->prepack);
  const c10::IValue held = model.attributes.attr(packed.name);
  if (unpack.empty() || *held.type() != *kernels::packed_type(packed.weight->prepack)) return false;
  return !kernels::call_operator(unpack, {held}).front().toTensor().is_alias_of(packed.weight->quantized);
}

/// The reads get what `module` packs.
void hold(Model& model, const Packed& packed, const torch::jit::Module& module) {
  const std::string held = ir::unique_attribute_name(model, packed.name + "_held");
  model.attributes.add(ir::submodule(held, module));
  for (Node* read : packed.reads) {
    Value* owner = ir::read_attribute(read, model.graph->inputs().at(0), held, module.type());
    Value* value = ir::read_attribute(read, owner, "packed", kernels::packed_type(packed.weight->prepack));
    read->output()->replaceAllUsesWith(value);
  }
}

/// `quantized`: the weight that it was made of.
void pack_when_loaded(Model& model, const Packed& packed, const at::Tensor& quantized) {
  hold(model, packed,
       torchscript::pack_when_loaded(packed.weight->prepack, packed.weight->weighted,
                                     /*input_has_zero_point=*/false, quantized));
}

/// Columns of zeros that the packed params of a linear layer have beside its weight's.
int64_t zero_columns(const Model& model, const Packed& packed) {
  const c10::IValue held = model.attributes.attr(packed.name);
  const at::Tensor weight = kernels::call_operator("quantized::linear_unpack", {held}).front().toTensor();
  return weight.size(1) - packed.weight->weighted.weight.size(1);
}

bool is_matrix(const Packed& packed) {
  return packed.weight->prepack == "quantized::linear_prepack" &&
         torchscript::can_pack_matrix(packed.weight->weighted);
}

/// Whether the rounded values of a matrix, transposed, have the codes of the other.
bool makes(const at::Tensor& matrix, const ir::Weighted& other) {
  ir::Weighted made = other;
  made.weight = matrix.dequantize().t().contiguous();
  return at::equal(kernels::quantized_weight(made).int_repr(), kernels::quantized_weight(other).int_repr());
}

/// A linear layer's weight that tie_transposes has made of another's is packed of that one, whose rows are
/// its columns. Whether there are any.
bool hold_transposes_once(Model& model, const std::vector<Packed>& all) {
  std::map<const void*, const Packed*> first;  // by the matrix of the file
  std::map<const Packed*, at::Tensor> held;
  const auto hold_matrix = [&](const Packed& packed, const at::Tensor& matrix, bool is_transposed) {
    hold(model, packed,
         torchscript::pack_matrix_when_loaded(packed.weight->weighted, matrix, is_transposed,
                                              zero_columns(model, packed)));
  };
  for (const Packed& packed : all) {
    if (!is_matrix(packed)) continue;
    const ir::Weighted& weighted = packed.weight->weighted;
    const Packed& other = *first.try_emplace(ir::origin_of(weighted).const_data_ptr(), &packed).first->second;
    if (!ir::are_transposes(other.weight->weighted, weighted)) continue;
    const auto known = held.find(&other);
    const at::Tensor matrix =
        known == held.end() ? kernels::quantized_weight(other.weight->weighted) : known->second;
    if (!makes(matrix, weighted)) continue;
    if (held.emplace(&other, matrix).second) hold_matrix(other, matrix, /*is_transposed=*/false);
    hold_matrix(packed, matrix, /*is_transposed=*/true);
  }
  return !held.empty();
}

}  // namespace

bool hold_weights_once(Model& model, const PassContext& context) {
  const kernels::EnginePacking engine(context.target);
  const std::vector<Packed> all = packed_in(model);
  std::map<const void*, std::size_t> uses;  // by weight
  for (const Packed& each : all) {
    if (each.weight->quantized.defined()) ++uses[each.weight->quantized.const_data_ptr()];
  }
  bool has_changed = false;
  // In their own order: addresses have another one in each run.
  for (const Packed& each : all) {
    const at::Tensor& weight = each.weight->quantized;
    if (!weight.defined() || uses.at(weight.const_data_ptr()) < 2 || !is_copied(model, each)) continue;
    pack_when_loaded(model, each, weight);
    has_changed = true;
  }
  has_changed |= hold_transposes_once(model, all);
  if (has_changed) ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
