// Calls of one layer whose packed params differ, in their bias or for their engine, share the weight that
// these are packed of. Where packing copies it, a file would hold it once for each call.
//   linear(x, packed), linear(y, packed_1)   →   linear(x, held.packed), linear(y, held_1.packed), which are
//   packed of one weight when the file is loaded

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "backends/kernels/engine_packing.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/pack/passes.h"
#include "torchscript/modules/pack_when_loaded.h"

namespace tsq::passes {
namespace {

using Reads = std::map<std::string, std::vector<Node*>>;  ///< of packed params, by attribute

/// What reads the plain weight of packed params; empty for those that no file holds several times.
std::string unpack_of(const std::string& prepack) {
  const std::size_t suffix = prepack.rfind("_prepack");
  const bool is_packed_params = prepack.starts_with("quantized::") &&
                                suffix + std::string_view("_prepack").size() == prepack.size() &&
                                prepack.find("transpose") == std::string::npos;
  return is_packed_params ? prepack.substr(0, suffix) + "_unpack" : std::string();
}

/// Whether saving packed params saves a copy of the weight that they were made of.
bool is_copied(const Model& model, const std::string& name, const ir::PackedWeight& packed) {
  const std::string unpack = unpack_of(packed.prepack);
  const c10::IValue held = model.attributes.attr(name);
  if (unpack.empty() || *held.type() != *kernels::packed_type(packed.prepack)) return false;
  return !kernels::call_operator(unpack, {held}).front().toTensor().is_alias_of(packed.quantized);
}

/// The packed params that are read, by the quantized weight that they were made of.
std::map<const void*, Reads> shared_weights(Model& model) {
  std::map<const void*, Reads> found;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::prim::GetAttr || node->input(0) != model.graph->inputs().at(0)) continue;
    const auto packed = model.packed_weights.find(node->s(c10::attr::name));
    if (packed == model.packed_weights.end() || !packed->second.quantized.defined()) continue;
    found[packed->second.quantized.const_data_ptr()][packed->first].push_back(node);
  }
  return found;
}

void pack_when_loaded(Model& model, const std::string& name, const std::vector<Node*>& reads) {
  const ir::PackedWeight& packed = model.packed_weights.at(name);
  const torch::jit::Module module = torchscript::pack_when_loaded(
      packed.prepack, packed.weighted, /*input_has_zero_point=*/false, packed.quantized);
  const std::string held = ir::unique_attribute_name(model, name + "_held");
  model.attributes.add(ir::submodule(held, module));
  for (Node* read : reads) {
    Value* owner = ir::read_attribute(read, model.graph->inputs().at(0), held, module.type());
    Value* value = ir::read_attribute(read, owner, "packed", kernels::packed_type(packed.prepack));
    read->output()->replaceAllUsesWith(value);
  }
}

}  // namespace

bool hold_weights_once(Model& model, const PassContext& context) {
  bool has_changed = false;
  const kernels::EnginePacking engine(context.target);
  for (const auto& [weight, attributes] : shared_weights(model)) {
    if (attributes.size() < 2) continue;
    for (const auto& [name, reads] : attributes) {
      if (!is_copied(model, name, model.packed_weights.at(name))) continue;
      pack_when_loaded(model, name, reads);
      has_changed = true;
    }
  }
  if (has_changed) ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
