#include "passes/capture/capturing.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "passes/capture/opened_modules.h"

namespace tsq::passes {

Capturing begin_capturing(const CaptureSource& source, std::unordered_set<ObjectPointer> kept) {
  Capturing state{.source = source, .kept = std::move(kept)};
  state.model.opens_methods = source.opens_methods;
  state.model.scopes.push_back({"", class_symbol(source.module)});
  state.scopes.emplace("", 0);
  for (const auto& attribute : source.module.named_attributes(/*recurse=*/false)) {
    if (!attribute.value.isModule()) state.model.taken_names.insert(attribute.name);
  }
  for (const auto& method : source.module.get_methods()) state.model.taken_names.insert(method.name());
  return state;
}

bool looks_into_leaves(const Capturing& state) {
  return state.in_other_method && !state.source.opens_methods;
}

Symbol class_symbol(const torch::jit::Module& module) {
  const auto name = module.type()->name();
  return parse_symbol(name ? name->qualifiedName() : "");
}

std::string path_of(const CaptureSource& source, const torch::jit::Module& module) {
  const auto found = source.paths.find(module._ivalue().get());
  return found == source.paths.end() ? std::string() : found->second;
}

bool is_root(const CaptureSource& source, const torch::jit::Module& module) {
  return module._ivalue() == source.module._ivalue();
}

std::vector<ir::Node*> nodes_of_methods(const torch::jit::Module& module) {
  std::vector<ir::Node*> nodes;
  for (const torch::jit::Module& each : module.modules()) {
    for (const auto& method : each.get_methods())
      std::ranges::copy(ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph()),
                        std::back_inserter(nodes));
  }
  return nodes;
}

std::size_t scope_for(Capturing& state, const torch::jit::Module& module) {
  std::string path = path_of(state.source, module);
  const auto [found, is_new] = state.scopes.try_emplace(path, state.model.scopes.size());
  if (is_new)
    state.model.scopes.push_back({std::move(path), class_symbol(module), is_opened(state.source, module)});
  return found->second;
}

}  // namespace tsq::passes
