// Samples without the dimension of a batch: int8 kernels take batches only.
//   obs1(conv(obs0(x)))   →   obs1(squeeze(obs1(conv(obs0(unsqueeze(obs0(x), 0)))), 0))

#include "passes/convert/batch_inputs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "observers/observed_ranks.h"
#include "operators/traits.h"
#include "passes/decision_index.h"
#include "passes/placement/layer_in_float.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

struct SampleRank {
  std::string_view name;  ///< of a function or module, in small letters and without underscores
  int64_t rank;           ///< of one sample
};
constexpr std::array kPools{
    SampleRank{"maxpool1d", 2},         SampleRank{"maxpool2d", 3},
    SampleRank{"maxpool3d", 4},         SampleRank{"avgpool1d", 2},
    SampleRank{"avgpool2d", 3},         SampleRank{"avgpool3d", 4},
    SampleRank{"adaptiveavgpool1d", 2}, SampleRank{"adaptiveavgpool2d", 3},
    SampleRank{"adaptiveavgpool3d", 4},
};
constexpr std::array kFunctionalLayers{
    SampleRank{"linear", 1},          SampleRank{"conv1d", 2},          SampleRank{"conv2d", 3},
    SampleRank{"conv3d", 4},          SampleRank{"convtranspose1d", 2}, SampleRank{"convtranspose2d", 3},
    SampleRank{"convtranspose3d", 4},
};
/// As functions these take batches only.
constexpr std::array kNormModules{SampleRank{"instancenorm1d", 2}, SampleRank{"instancenorm2d", 3},
                                  SampleRank{"instancenorm3d", 4}};
/// Sums and products with what QFunctional fuses into them.
constexpr std::array<std::string_view, 2> kFusedSums{"addrelu", "mulrelu"};

/// The last part of an operator's name as the tables above spell it.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name.substr(name.find_last_of('.') + 1)) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::vector<std::string> plain_names(const Model& gm, const Node* node) {
  std::vector<std::string> names;
  for (const Symbol& target : ir::targets(gm, node)) names.push_back(plain_name(target.name));
  return names;
}

template <typename Table>
std::optional<int64_t> rank_in(const Table& table, const std::vector<std::string>& names) {
  for (const SampleRank& row : table) {
    if (std::ranges::find(names, row.name) != names.end()) return row.rank;
  }
  return std::nullopt;
}

/// The rank of one sample of what the operator reads, where its kernel takes batches only.
std::optional<int64_t> sample_rank(const Model& gm, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(gm, node);
    if (const ir::Weighted* weighted = ir::weighted_of(call))
      return static_cast<int64_t>(weighted->stride.size()) + 1;
  }
  const std::vector<std::string> names = plain_names(gm, node);
  if (const auto pool = rank_in(kPools, names)) return pool;
  return ir::is_module_call(node) ? std::nullopt : rank_in(kFunctionalLayers, names);
}

/// Operators on values one by one, which take any rank.
bool is_elementwise(const Model& gm, const Node* node) {
  return operators::is_elementwise(operators::traits_of(gm, node));
}

bool is_sum(const Model& gm, const Node* node) {
  return operators::has(operators::traits_of(gm, node), operators::ElementwiseOfTwo) ||
         std::ranges::any_of(plain_names(gm, node), [](const std::string& name) {
           return std::ranges::find(kFusedSums, name) != kFusedSums.end();
         });
}

bool is_tensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

/// What an operator reads that makes a batch of the rest of what it reads.
struct Batch {
  Value* value{};    ///< the batch
  int64_t rank{};    ///< of one sample
  Value* leading{};  ///< where samples may come as batches: the value whose first dimensions are the batch's
};

class BatchInputs {
 public:
  BatchInputs(Model& gm, std::span<const torch::jit::Module> observers, Report& report)
      : gm_(gm), observers_(observers), decisions_(report) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (!ir::is_observer(node) && !done_.contains(node) && node->outputs().size() == 1) visit(node);
    }
    for (auto it = replaced_.rbegin(); it != replaced_.rend(); ++it) {
      if (!(*it)->hasUses()) (*it)->destroy();
    }
  }

 private:
  void visit(Node* node) {
    if (is_norm_of_sample(node)) {
      ir::set_stays_float(node);
      report_left_float(decisions_.of(node),
                        "computed in float between dequantize and quantize: its kernel takes batches only");
      return;
    }
    const auto rank = sample_rank(gm_, node);
    if (!rank && !is_elementwise(gm_, node) && !is_sum(gm_, node)) return;
    const auto inputs = tensors_of(node, rank.has_value());
    if (inputs.empty() || ir::stays_float(node)) return;
    const bool is_batched = std::ranges::any_of(inputs, [&](Value* input) {
      const bool lacks_batch = known_batch(input, rank) || (rank && may_lack_batch(input, *rank));
      return has_batch_.contains(unobserved(input)) || (rank && !lacks_batch);
    });
    if (is_batched) {
      has_batch_.insert(node->output());
      return;
    }
    std::vector<Batch> batches;
    for (Value* input : inputs) {
      const auto batch = known_batch(input, rank);
      if (!batch && !rank) return;
      if (!batch && !may_lack_batch(input, *rank)) return;
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
    const auto rank = ir::is_module_call(node) ? rank_in(kNormModules, plain_names(gm_, node)) : std::nullopt;
    return rank && ir::is_observer(node->input(0)->node()) && may_lack_batch(node->input(0), *rank);
  }

  /// The activations that an operator reads; empty where some are not observed.
  std::vector<Value*> tensors_of(const Node* node, bool is_layer) const {
    std::vector<Value*> tensors;
    const std::size_t first = node->kind() == c10::prim::CallFunction ? 1 : 0;
    for (std::size_t i = first; i < node->inputs().size(); ++i) {
      Value* input = const_cast<Value*>(node->input(i));
      const bool is_parameter_of_function = is_layer && !ir::is_module_call(node) && i > first;
      if (!is_tensor(input) || is_parameter_of_function) continue;
      tensors.push_back(input);
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
    return resolve(gm_.observers[ir::observer_index(observer)].spec).is_dynamic;
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
    const Value* value = unobserved(input);
    if (has_batch_.contains(value) || !has_rank(input, rank)) return false;
    // The observer saw what was there before as well.
    return value->node()->kind() != c10::aten::unsqueeze || !has_rank(input, rank + 1);
  }

  bool has_rank(Value* input, int64_t rank) const {
    const std::vector<Node*> chain = chain_of(input);
    const auto bit = static_cast<std::size_t>(rank);
    return !chain.empty() && observed_ranks(observers_[ir::observer_index(chain.front())]).test(bit);
  }

  static const Value* unobserved(const Value* value) {
    while (ir::is_observer(value->node())) value = value->node()->input(0);
    return value;
  }

  Value* constant(const c10::IValue& value, Node* before) { return ir::constant_before(gm_, before, value); }
  Value* insert(Node* before, const char* kind, const std::vector<Value*>& inputs) {
    Value* made = ir::insert_before(gm_, before, kind, inputs);
    ir::take_scope(made->node(), before);
    return made;
  }
  Value* sizes(Node* before, const char* kind, const std::vector<Value*>& inputs) {
    Value* made = insert(before, kind, inputs);
    made->setType(c10::ListType::ofInts());
    return made;
  }
  Value* part(Node* before, Value* list, const c10::IValue& from, const c10::IValue& to) {
    return sizes(before, "aten::slice",
                 {list, constant(from, before), constant(to, before), constant(int64_t{1}, before)});
  }

  Batch new_batch(Value* input, int64_t rank, Node* before) {
    Value* base = base_of(input);
    const ObservedRanks seen = observed_ranks(observers_[ir::observer_index(chain_of(input).front())]);
    const bool lost_batch = unobserved(input)->node()->kind() == c10::aten::squeeze;
    if (lost_batch || (seen >> (static_cast<std::size_t>(rank) + 1)).none())
      return {.value = insert(before, "aten::unsqueeze", {base, constant(int64_t{0}, before)}), .rank = rank};
    Value* batch = constant(std::vector<int64_t>{-1}, before);
    Value* own = part(before, sizes(before, "aten::size", {base}), -rank, c10::IValue());
    Value* shape = sizes(before, "aten::add", {batch, own});
    return {.value = insert(before, "aten::reshape", {base, shape}), .rank = rank, .leading = base};
  }

  /// The samples of `value`, a batch that an operator made of `batch`.
  Value* samples(Value* value, const Batch& batch, Node* before) {
    if (batch.leading == nullptr)
      return insert(before, "aten::squeeze", {value, constant(int64_t{0}, before)});
    Value* leading = part(before, sizes(before, "aten::size", {batch.leading}), c10::IValue(), -batch.rank);
    Value* own = part(before, sizes(before, "aten::size", {value}), int64_t{1}, c10::IValue());
    return insert(before, "aten::reshape", {value, sizes(before, "aten::add", {leading, own})});
  }

  Node* observe(Value* value, std::size_t observer, Node* before) {
    Node* made = gm_.graph->create(ir::kObserverKind, {value}, 1);
    ir::set_observer_index(made, observer);
    ir::take_scope(made, value->node());
    made->output()->setType(value->type());
    made->insertBefore(before);
    return made;
  }

  /// The batch after the same observers as `input`, but for one that it stands after already.
  Value* observed_again(Value* input, const Batch& batch, Node* before) {
    std::vector<Node*> chain = chain_of(input);
    const bool is_observed = ir::is_observer(batch.value->node());
    if (is_observed && !chain.empty()) chain.erase(chain.begin());
    Value* value = batch.value;
    for (const Node* each : chain) value = observe(value, ir::observer_index(each), before)->output();
    return value;
  }

  /// What reads the operator's result reads samples, after activations that belong to it.
  void give_samples(Node* node, const Batch& batch) {
    done_.insert(node);
    const auto is_activation = [&](Node* reader) {
      return reader->owningBlock() == node->owningBlock() && !ir::is_observer(reader) &&
             !ir::stays_float(reader) && reader->outputs().size() == 1 && is_elementwise(gm_, reader);
    };
    Node* end = node;
    while (end->output()->uses().size() == 1 && is_activation(end->output()->uses().front().user)) {
      end = end->output()->uses().front().user;
      done_.insert(end);
    }
    Value* result = end->output();
    const std::vector<torch::jit::Use> uses = result->uses();
    Node* next = end->next();
    Batch given{.value = result, .rank = batch.rank, .leading = batch.leading};
    const auto observed =
        std::ranges::find_if(uses, [](const torch::jit::Use& use) { return ir::is_observer(use.user); });
    Value* read = result;
    if (observed != uses.end()) {
      Node* observer = observe(result, ir::observer_index(observed->user), next);
      read = given.value = observer->output();
      batches_[observed->user->output()] = given;
    }
    Value* made = samples(read, batch, next);
    if (observed == uses.end()) batches_[made] = given;
    add_replaced(made->node());
    for (const torch::jit::Use& use : uses) use.user->replaceInput(use.offset, made);
  }

  void add_replaced(Node* node) {
    if (std::ranges::find(replaced_, node) == replaced_.end()) replaced_.push_back(node);
  }

  Model& gm_;
  std::span<const torch::jit::Module> observers_;
  DecisionIndex decisions_;
  std::map<const Value*, Batch> batches_;  ///< by the samples that they are made of
  std::set<const Node*> done_;
  std::set<const Value*> has_batch_;  ///< values of which that is known
  std::vector<Node*> replaced_;       ///< what may be read by nobody any more
};

}  // namespace

void batch_inputs(Model& gm, std::span<const torch::jit::Module> observers, Report& report) {
  BatchInputs(gm, observers, report).run();
}

}  // namespace tsq::passes
