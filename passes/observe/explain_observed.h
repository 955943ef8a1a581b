#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/model.h"
#include "passes/context/pass_context.h"
#include "passes/observe/why_float.h"

namespace tsq::passes {

/// Writes the report's entries, in graph order: what each operator is, what matched it, and why it stays
/// float.
class ObservationReport {
 public:
  ObservationReport(ir::Model& model, const PassContext& context) : model_(model), context_(context) {}

  void add(ir::Node* node, const Findings& findings);
  /// Each operator of a pattern of several learns the names of the others, once all have one.
  void name_partners();

 private:
  std::string lasting_name(ir::Value* value, std::string_view operator_name);

  ir::Model& model_;
  const PassContext& context_;
  std::unordered_map<std::string, int> name_numbers_;  ///< the last number given after each operator's name
};

}  // namespace tsq::passes
