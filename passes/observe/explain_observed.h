#pragma once

#include <tsq/backend_config.h>
#include <tsq/report.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph_module.h"
#include "passes/observe/passes.h"

namespace tsq::passes {

/// What observe found out about an operator.
struct Findings {
  bool on_tensors{true};
  std::vector<std::string>
      refusals{};                    ///< the first failed check of each DTypeConfig, up to one that takes it
  bool is_refused{false};            ///< no DTypeConfig took it
  bool is_mask{false};               ///< or feeds one
  bool gives_no_tensor{false};       ///< its output, a tuple or a list, has no observer
  bool has_nothing_to_share{false};  ///< its output would share an observer that its input has not
};

/// Whether the report has an entry for a node: operators of TorchScript and of the host program, calls of
/// modules, functions and methods; not what only moves values about.
bool is_operator(const ir::GraphModule& gm, const ir::Node* node);

/// Writes the report's entries, in graph order: what each operator is, what matched it, and why it stays
/// float.
class ObservationReport {
 public:
  ObservationReport(const ir::GraphModule& gm, const MatchTable& table, const BackendConfig& backend,
                    Report& report)
      : gm_(gm), table_(table), backend_(backend), report_(report) {}

  void add(ir::Node* node, const Findings& findings);

 private:
  std::string lasting_name(ir::Value* value, std::string_view operator_name);

  const ir::GraphModule& gm_;
  const MatchTable& table_;
  const BackendConfig& backend_;
  Report& report_;
  std::unordered_map<std::string, int> name_numbers_;  ///< the last number given after each operator's name
};

}  // namespace tsq::passes
