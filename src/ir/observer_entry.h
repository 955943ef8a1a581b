#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include <cstddef>
#include <optional>
#include <string>

#include "ir/graph.h"

namespace tsq::ir {

/// What a calibrated observer has found.
struct ObserverResult {
  bool saw_data{true};
  std::optional<QParams> qparams{};  ///< none for observers without (placeholders)
  bool saw_other_dtype{false};       ///< a tensor that is not float32, and so cannot be quantized
};

/// An observer put into the graph. Several nodes may name one entry (shared observers).
struct ObserverEntry {
  std::string name{};  ///< attribute of the prepared module, "activation_post_process_3"
  ObserverSpec spec{};
  std::string layer{};                         ///< module path of what it observes, for messages
  std::optional<torch::jit::Module> module{};  ///< the observer itself, made at the end of prepare
  std::optional<ObserverResult> result{};      ///< what it has found, once find_qparams has asked it
};

/// `prim::tsq_observer`: the kind of a node that is an observer.
extern const c10::Symbol kObserverKind;

[[nodiscard]] bool is_observer(const Node* node);
/// Which of the model's observers a node is.
[[nodiscard]] std::size_t observer_index(const Node* node);
void set_observer_index(Node* node, std::size_t index);

/// What the observers that a value comes out of look at; the value itself after other nodes.
template <typename AnyValue>
AnyValue* before_observers(AnyValue* value) {
  while (is_observer(value->node())) value = value->node()->input(0);
  return value;
}

}  // namespace tsq::ir
