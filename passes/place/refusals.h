#pragma once

#include <optional>

#include "backends/choices/choices.h"
#include "passes/context/pass_context.h"

namespace tsq::passes {

/// Which operators that are placed in int8 no kernel takes. The model's operators must not change meanwhile.
class Refusals {
 public:
  Refusals(const ir::Model& model, const PassContext& context);

  /// What the first kernel says where all refuse an operator. None where it is not in int8, where a kernel
  /// takes it, and where no table has one for it.
  [[nodiscard]] std::optional<kernels::Refusal> of(const ir::Node* op);

 private:
  const ir::Model& model_;
  const PassContext& context_;
  kernels::Catalogue catalogue_;
};

}  // namespace tsq::passes
