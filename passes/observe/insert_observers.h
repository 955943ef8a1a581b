#pragma once

#include <optional>
#include <string>

#include "ir/model.h"
#include "passes/observe/target_infos.h"

/// Where observers go (D-20 … D-37).
namespace tsq::passes {

/// What became of the observer of a match's output.
enum class OutputObserver {
  None,            ///< nothing asks for one
  Inserted,        ///< new, or the one of its input (D-28)
  NoTensor,        ///< its output is a tuple or a list
  NothingToShare,  ///< it would share an observer that its input has not (D-30)
};

class ObserverInsertion {
 public:
  ObserverInsertion(ir::Model& model, const TargetInfos& infos) : model_(model), infos_(infos) {}

  /// In front of a match's root.
  void observe_inputs(ir::Node* root);
  /// After its last operator.
  OutputObserver observe_output(ir::Node* last);

 private:
  void observe_standalone_inputs(ir::Node* node);
  [[nodiscard]] std::optional<WantedObserver> needed_observer(const ir::Node* node, Role role,
                                                              const ir::Value* value, bool is_zeroth) const;
  bool is_rounded_in_branches(ir::Value* value, const WantedObserver& observer, const std::string& layer);
  ir::Value* observed(ir::Value* value, const WantedObserver& observer, const std::string& layer);

  ir::Model& model_;
  const TargetInfos& infos_;
};

}  // namespace tsq::passes
