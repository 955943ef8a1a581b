// Samples without the dimension of a batch: float operators take them, int8 kernels take batches only.
// Layers and pools that saw such samples read and return a batch of one; operators on values one by one
// between them do too. Where calibration saw both, what is in front of a sample's own dimensions becomes the
// batch. Norms of samples read them as they are.
//   obs1(conv(obs0(x)))   →   obs1(squeeze(obs1(conv(obs0(unsqueeze(obs0(x), 0)))), 0))

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/value_numbers.h"
#include "observers/observed_ranks.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/ranges/passes.h"
#include "passes/ranges/sample_ranks.h"

namespace tsq::passes {
namespace {

bool is_tensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

/// What an operator reads that makes a batch of the rest of what it reads.
struct Batch {
  Value* value{};    ///< the batch
  int64_t rank{};    ///< of one sample
  Value* leading{};  ///< where samples may come as batches: the value whose first dimensions are the batch's
};

class BatchInputs {
 public:
  explicit BatchInputs(Model& model) : model_(model) {}

  /// Whether the model was changed.
  bool run() {
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (!ir::is_observer(node) && !done_.contains(node) && node->outputs().size() == 1) visit(node);
    }
    for (Node* node : std::views::reverse(replaced_)) {
      if (!node->hasUses()) node->destroy();
    }
    return has_changed_;
  }

 private:
  void visit(Node* node) {
    if (is_norm_of_sample(node)) {
      ir::record_for(model_, node).reason = ir::Reason::OfSample;
      has_changed_ = true;
      return;
    }
    const auto rank = sample_rank(model_, node);
    if (!rank && !is_elementwise(model_, node) && !is_sum(model_, node)) return;
    const auto inputs = tensors_of(node, rank.has_value());
    if (inputs.empty() || ir::stays_float(model_, node)) return;
    const bool is_batched = std::ranges::any_of(inputs, [&](Value* input) {
      const bool lacks_batch = known_batch(input, rank) || (rank && may_lack_batch(input, *rank));
      return has_batch_.contains(before_observers(input)) || (rank && !lacks_batch);
    });
    if (is_batched) {
      has_batch_.insert(node->output());
      return;
    }
    std::vector<Batch> batches;
    for (Value* input : inputs) {
      const auto batch = known_batch(input, rank);
      if (!batch && !rank) return;
      batches.push_back(batch.value_or(Batch{}));
    }
    const bool fit = std::ranges::all_of(batches, [&](const Batch& batch) {
      const Batch& first = batches.front();
      return batch.value == nullptr || first.value == nullptr ||
             (batch.rank == first.rank && (batch.leading == nullptr) == (first.leading == nullptr));
    });
    if (!fit) return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (batches[i].value == nullptr) batches[i] = new_batch(inputs[i], *rank, node);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<Node*> chain = chain_of(inputs[i]);
      ir::replace_operand(node, inputs[i], observed_again(inputs[i], batches[i], node));
      for (Node* each : chain) add_replaced(each);
    }
    give_samples(node, batches.front());
  }

  /// What a norm of torch.nn makes of a sample depends on how the file was made.
  bool is_norm_of_sample(Node* node) const {
    const auto rank = rank_of_normed_sample(model_, node);
    return rank && ir::is_observer(node->input(0)->node()) && may_lack_batch(node->input(0), *rank);
  }

  /// The activations that an operator reads; empty where some are not observed.
  std::vector<Value*> tensors_of(const Node* node, bool is_layer) const {
    std::vector<Value*> tensors;
    const std::size_t first = node->kind() == c10::prim::CallFunction ? 1 : 0;
    // What a function reads besides are its parameters.
    const std::size_t end = is_layer && !ir::is_module_call(node) ? first + 1 : node->inputs().size();
    for (std::size_t i = first; i < end; ++i) {
      if (is_tensor(node->input(i))) tensors.push_back(const_cast<Value*>(node->input(i)));
    }
    const bool all_observed = std::ranges::all_of(tensors, [&](const Value* value) {
      return ir::is_observer(value->node()) || batches_.contains(value);
    });
    return all_observed ? tensors : std::vector<Value*>{};
  }

  // Several observers precede a layer, one after the other: that of the range first.

  static std::vector<Node*> chain_of(Value* input) {
    std::vector<Node*> chain;
    for (Node* node = input->node(); ir::is_observer(node); node = node->input(0)->node())
      chain.insert(chain.begin(), node);
    return chain;
  }

  bool is_dynamic(const Node* observer) const {
    return resolve(ir::observer_of(model_, observer).spec).is_dynamic;
  }

  /// What is made a batch of: the observed value, or the value itself where it is quantized when the model
  /// runs.
  Value* base_of(Value* input) const {
    const std::vector<Node*> chain = chain_of(input);
    if (chain.empty()) return input;
    return is_dynamic(chain.front()) ? chain.front()->input(0) : chain.front()->output();
  }

  std::optional<Batch> known_batch(Value* input, const std::optional<int64_t>& rank) const {
    const auto found = batches_.find(base_of(input));
    if (found == batches_.end() || (rank && found->second.rank != *rank)) return std::nullopt;
    return found->second;
  }

  /// Observers that several values share saw the ranks of all of them: what is known of the value counts
  /// first.
  bool may_lack_batch(Value* input, int64_t rank) const {
    const Value* value = before_observers(input);
    if (has_batch_.contains(value) || !has_rank(input, rank)) return false;
    // The observer saw what was there before as well.
    return value->node()->kind() != c10::aten::unsqueeze || !has_rank(input, rank + 1);
  }

  bool has_rank(Value* input, int64_t rank) const {
    const std::vector<Node*> chain = chain_of(input);
    return !chain.empty() && ranks_seen_by(chain.front()).test(static_cast<std::size_t>(rank));
  }

  ObservedRanks ranks_seen_by(const Node* observer) const {
    return observed_ranks(ir::observer_of(model_, observer).module.value());
  }

  static Value* sizes(const ir::Rewriter& rewriter, const char* kind, const std::vector<Value*>& inputs) {
    return rewriter.op(kind, inputs, c10::ListType::ofInts());
  }
  static Value* part(const ir::Rewriter& rewriter, Value* list, const c10::IValue& from,
                     const c10::IValue& to) {
    return sizes(rewriter, "aten::slice",
                 {list, rewriter.constant(from), rewriter.constant(to), rewriter.constant(int64_t{1})});
  }

  Batch new_batch(Value* input, int64_t rank, Node* before) {
    Value* base = base_of(input);
    const ir::Rewriter rewriter(model_, before);
    const ObservedRanks seen = ranks_seen_by(chain_of(input).front());
    const bool lost_batch = before_observers(input)->node()->kind() == c10::aten::squeeze;
    if (lost_batch || (seen >> (static_cast<std::size_t>(rank) + 1)).none()) {
      Value* batch = rewriter.op("aten::unsqueeze", {base, rewriter.constant(int64_t{0})});
      ir::take_number(batch, before_observers(base));
      return {.value = batch, .rank = rank};
    }
    Value* batch = rewriter.constant(std::vector<int64_t>{-1});
    Value* own = part(rewriter, sizes(rewriter, "aten::size", {base}), -rank, c10::IValue());
    Value* shape = sizes(rewriter, "aten::add", {batch, own});
    return {.value = rewriter.op("aten::reshape", {base, shape}), .rank = rank, .leading = base};
  }

  /// The samples of `value`, a batch that an operator made of `batch`.
  Value* samples(Value* value, const Batch& batch, Node* before) {
    const ir::Rewriter rewriter(model_, before);
    if (batch.leading == nullptr) return rewriter.op("aten::squeeze", {value, rewriter.constant(int64_t{0})});
    Value* leading =
        part(rewriter, sizes(rewriter, "aten::size", {batch.leading}), c10::IValue(), -batch.rank);
    Value* own = part(rewriter, sizes(rewriter, "aten::size", {value}), int64_t{1}, c10::IValue());
    return rewriter.op("aten::reshape", {value, sizes(rewriter, "aten::add", {leading, own})});
  }

  /// The batch after the same observers as `input`, but for one that it stands after already.
  Value* observed_again(Value* input, const Batch& batch, Node* before) {
    std::vector<Node*> chain = chain_of(input);
    if (ir::is_observer(batch.value->node()) && !chain.empty()) chain.erase(chain.begin());
    Value* value = batch.value;
    for (const Node* each : chain)
      value = insert_observer_before(model_, value, ir::observer_index(each), before)->output();
    return value;
  }

  /// What reads the operator's result reads samples, after activations that belong to it.
  void give_samples(Node* node, const Batch& batch) {
    has_changed_ = true;
    done_.insert(node);
    const auto is_activation = [&](Node* reader) {
      return reader->owningBlock() == node->owningBlock() && !ir::is_observer(reader) &&
             !ir::stays_float(model_, reader) && reader->outputs().size() == 1 &&
             is_elementwise(model_, reader);
    };
    Node* end = node;
    while (end->output()->uses().size() == 1 && is_activation(end->output()->uses().front().user)) {
      ir::drop_number(end->output());  // calibration saw no batch of it
      end = end->output()->uses().front().user;
      done_.insert(end);
    }
    Value* result = end->output();
    const std::vector<torch::jit::Use> uses = result->uses();
    Node* next = end->next();
    Batch given{.value = result, .rank = batch.rank, .leading = batch.leading};
    const auto observed =
        std::ranges::find_if(uses, [](const torch::jit::Use& use) { return ir::is_observer(use.user); });
    if (observed != uses.end()) {
      Node* observer = insert_observer_before(model_, result, ir::observer_index(observed->user), next);
      given.value = observer->output();
      batches_[observed->user->output()] = given;
    }
    Value* made = samples(given.value, batch, next);
    ir::take_number(made, result);
    ir::drop_number(result);
    if (observed == uses.end()) batches_[made] = given;
    add_replaced(made->node());
    for (const torch::jit::Use& use : uses) use.user->replaceInput(use.offset, made);
  }

  void add_replaced(Node* node) {
    if (std::ranges::find(replaced_, node) == replaced_.end()) replaced_.push_back(node);
  }

  Model& model_;
  std::map<const Value*, Batch> batches_;  ///< by the samples that they are made of
  std::set<const Node*> done_;
  std::set<const Value*> has_batch_;  ///< values of which that is known
  std::vector<Node*> replaced_;       ///< what may be read by nobody any more
  bool has_changed_{false};
};

}  // namespace

bool batch_inputs(Model& model, const PassContext& /*context*/) { return BatchInputs(model).run(); }

}  // namespace tsq::passes
