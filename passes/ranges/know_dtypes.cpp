// Casts of parameters to the dtype and device of a value that calibration has seen: what they make is a
// constant then.
//   linear(y, to(w, dtype(x))), x was float32             →   linear(y, to(w, float32))
//   linear(y, to(w, device(x), dtype(x)))                 →   linear(y, to(w, "cpu", float32))
//   linear(y, type_as(w, x))                              →   linear(y, to(w, float32))
//   linear(y, to(w, dtype(b))), b a parameter in float32  →   linear(y, to(w, float32))
//   to(y, device(w)), w a parameter                       →   to(y, "cpu")

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "operators/constant_expressions.h"
#include "operators/known_dtypes.h"
#include "passes/context/nodes.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

/// The value whose dtype a cast takes; null for other nodes.
const Value* dtype_giver(const Node* node) {
  const bool is_cast = node->kind() == c10::aten::type_as || node->kind() == c10::aten::to;
  return is_cast && node->inputs().size() > 1 && ir::holds_tensor(node->input(1)) ? node->input(1) : nullptr;
}

/// Puts constants in the place of what calibration knows of values.
class DtypeKnowledge {
 public:
  explicit DtypeKnowledge(Model& model)
      : model_(model),
        known_(operators::known_dtypes(model, operators::Grounds::Certain)),
        constants_(model),
        written_(ir::written_attributes(model)) {}

  bool write() {
    find();
    for (const auto& [node, answer] : answers_) replace_node(node, ir::constant_before(node, answer));
    for (Node* node : casts_) name_dtype(node);
    for (Node* node : moves_) name_device(node);
    return !answers_.empty() || !casts_.empty() || !moves_.empty();
  }

 private:
  /// All of them before the graph changes: what is known of constants holds for the graph as it is.
  void find() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (const auto answer = known_answer(node)) {
        answers_.emplace_back(node, *answer);
        continue;
      }
      const Value* giver = dtype_giver(node);
      if (giver != nullptr && constants_.value_of(node->input(0)) && is_float(giver)) casts_.push_back(node);
      if (stays_on_cpu(node)) moves_.push_back(node);
    }
  }

  /// What a question of a value's dtype or device returns in each run. A parameter of which the graph asks
  /// this would stay in the file for it.
  [[nodiscard]] std::optional<c10::IValue> known_answer(const Node* node) const {
    const bool asks_dtype = node->kind() == c10::prim::dtype;
    if (!asks_dtype && node->kind() != c10::prim::device) return std::nullopt;
    if (asks_dtype && is_float(node->input(0))) return static_cast<int64_t>(c10::ScalarType::Float);
    const at::Tensor held = held_for_good(node->input(0));
    if (!held.defined()) return std::nullopt;
    if (asks_dtype) return static_cast<int64_t>(held.scalar_type());
    return held.is_cpu() ? std::optional<c10::IValue>(held.device()) : std::nullopt;
  }

  [[nodiscard]] bool is_float(const Value* value) const {
    return operators::known_dtype(known_, value) == c10::ScalarType::Float;
  }

  /// The tensor of an attribute that nothing writes; undefined for other values.
  [[nodiscard]] at::Tensor held_for_good(const Value* value) const {
    const std::string* name = ir::attribute_read(model_, value);
    return name == nullptr || written_.contains(*name) ? at::Tensor() : ir::held_tensor(model_, value);
  }

  /// Whether a cast moves a constant to the device of another value: samples are on the CPU, and so is all
  /// that a model with int8 kernels computes.
  [[nodiscard]] bool stays_on_cpu(const Node* node) const {
    if (node->kind() != c10::aten::to) return false;
    const Value* device = operators::argument_named(node, "device");
    if (device == nullptr || device->node()->kind() != c10::prim::device) return false;
    const auto moved = constants_.value_of(node->input(0));
    return moved && moved->isTensor() && moved->toTensor().defined() && moved->toTensor().is_cpu();
  }

  /// The other arguments stay: a copy that the model asks for is one still.
  void name_dtype(Node* node) {
    const ir::Rewriter in_front(model_, node);
    const auto argument = [&](const char* name, const c10::IValue& otherwise) {
      Value* own = operators::argument_named(node, name);
      return own != nullptr ? own : in_front.constant(otherwise);
    };
    constexpr auto kFloat = static_cast<int64_t>(c10::ScalarType::Float);
    replace_node(node, in_front.op("aten::to", {node->input(0), in_front.constant(kFloat),
                                                argument("non_blocking", false), argument("copy", false),
                                                argument("memory_format", c10::IValue())}));
  }

  static void name_device(Node* node) {
    Node* asked = operators::argument_named(node, "device")->node();
    node->replaceInputWith(asked->output(), ir::constant_before(node, c10::Device(c10::kCPU)));
    if (!asked->hasUses()) asked->destroy();
  }

  Model& model_;
  operators::KnownDtypes known_;
  operators::ConstantExpressions constants_;
  std::unordered_set<std::string> written_;
  std::vector<std::pair<Node*, c10::IValue>> answers_{};
  std::vector<Node*> casts_{};
  std::vector<Node*> moves_{};
};

}  // namespace

bool know_dtypes(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  // A cast of what another cast makes: the first has to be a constant before the second is known.
  while (DtypeKnowledge(model).write()) has_changed = true;
  return has_changed;
}

}  // namespace tsq::passes
