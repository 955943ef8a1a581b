// The defaults of a mode and a recipe.

#include <tsq/backends.h>
#include <tsq/quantize_model.h>

namespace tsq {

QConfigMapping mode_qconfig_mapping(QuantizeMode mode, Recipe recipe, std::string_view backend) {
  const bool is_best = recipe == Recipe::Best;
  if (mode == QuantizeMode::WeightOnly) return weight_only_qconfig_mapping();
  if (mode == QuantizeMode::Dynamic)
    return is_best ? best_dynamic_qconfig_mapping() : dynamic_qconfig_mapping();
  return is_best ? best_qconfig_mapping(backend) : default_qconfig_mapping(backend);
}

/// PyTorch's tables have rows for some forms of an embedding only.
BackendConfig mode_backend_config(QuantizeMode mode, Recipe recipe, BackendConfig backend) {
  if (mode != QuantizeMode::WeightOnly && recipe != Recipe::Best) return backend;
  return with_weight_only(std::move(backend));
}

}  // namespace tsq
