#include "pipeline/kept_facts.h"

#include <c10/util/hash.h>
#include <fmt/format.h>
#include <tsq/parse_json.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/value_numbers.h"

namespace tsq::detail {
namespace {

/// A hash of the values that have numbers, by what makes them: facts belong to these.
std::string values_of_facts(const ir::Model& model) {
  std::string names;
  for (const ir::NumberedValue& numbered : ir::numbered_values(*model.graph)) {
    const bool is_input = numbered.value->node()->kind() == c10::prim::Param;
    names += fmt::format("{} {}\n", numbered.number,
                         is_input ? std::string() : name_of_value(model, numbered.value));
  }
  return c10::sha1(names).str();
}

}  // namespace

std::string name_of_value(const ir::Model& model, const ir::Value* value) {
  const ir::Node* node = value->node();
  if (node == model.graph->param_node()) return value->debugName();
  const Decision* decision = ir::is_module_call(node) ? ir::decision_of(model, node) : nullptr;
  return decision != nullptr && !decision->node.empty() ? decision->node : node->kind().toQualString();
}

std::string text_of_facts(const ir::Model& model) {
  const nlohmann::json json{{"values", values_of_facts(model)}, {"facts", ir::json_of(model.facts)}};
  return json.dump();
}

ir::Facts facts_of_text(const std::string& text, const ir::Model& model) {
  const nlohmann::json json = parse_json(text, "facts");
  if (json.at("values").get<std::string>() != values_of_facts(model)) return {};
  std::size_t count = model.graph->inputs().size();
  for (const ir::NumberedValue& numbered : ir::numbered_values(*model.graph))
    count = std::max(count, numbered.number + 1);
  return ir::facts_of_json(json.at("facts"), count);
}

}  // namespace tsq::detail
