#pragma once

#include <string>
#include <vector>

#include "ir/model.h"
#include "passes/context/pass_context.h"

/// Why an operator stays float, as far as prepare knows.
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

/// Says in the record of an operator, whose decision names it already, whether it is quantized, and why not.
/// `match`: null where nothing matched it.
void explain(const ir::Model& model, const PassContext& context, const ir::Node* node, const ir::Match* match,
             const Findings& findings, ir::NodeRecord& record);

}  // namespace tsq::passes
