#include "trial/operator_pairs.h"

#include <ATen/ATen.h>
#include <tsq/bench/profile.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "trial/layer_sums.h"

namespace tsq::detail {
namespace {

using Run = std::vector<Captured>;
using Places = std::vector<std::size_t>;

/// Whether an int8 value may stand for that of a float operator.
bool is_candidate(const Captured& op) {
  return op.output.defined() && !op.is_view && op.output.numel() > 0 && !op.reads.empty() &&
         at::isFloatingType(op.output.scalar_type());
}

std::set<std::string> layers_with_weights(const Run& run) {
  std::set<std::string> layers;
  for (const Captured& op : run) {
    if (!op.attributes.empty() && !op.layer.empty()) layers.insert(op.layer);
  }
  return layers;
}

const Source* maker_of(const Source& source) {
  return source.kind == Source::Kind::Operator ? &source : nullptr;
}

/// Operators that `from` depends on, itself included, as far as `goes_on` allows.
template <typename GoesOn>
std::unordered_set<std::size_t> back_from(const Run& run, std::size_t from, const GoesOn& goes_on) {
  std::unordered_set<std::size_t> seen{from};
  Places left{from};
  while (!left.empty()) {
    const std::size_t op = left.back();
    left.pop_back();
    for (const Source& source : run[op].reads) {
      if (maker_of(source) != nullptr && goes_on(source.index) && seen.insert(source.index).second)
        left.push_back(source.index);
    }
  }
  return seen;
}

/// For each operator those of the same origin that read it.
template <typename Flow>
std::vector<Places> readers_in(const Run& run, const Flow& flow) {
  std::vector<Places> readers(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    for (const Source& source : run[i].reads) {
      if (maker_of(source) != nullptr && flow.origins[source.index] == flow.origins[i])
        readers[source.index].push_back(i);
    }
  }
  return readers;
}

/// Operators that depend on `from`, itself included.
std::unordered_set<std::size_t> forward_from(const std::vector<Places>& readers, std::size_t from) {
  std::unordered_set<std::size_t> seen{from};
  Places left{from};
  while (!left.empty()) {
    const std::size_t op = left.back();
    left.pop_back();
    for (const std::size_t reader : readers[op]) {
      if (seen.insert(reader).second) left.push_back(reader);
    }
  }
  return seen;
}

/// A float value that an int8 value may stand for.
struct Nearest {
  std::optional<std::size_t> place{};
  double error{std::numeric_limits<double>::infinity()};
};

/// Finds the pairs of one run.
template <typename Flow, typename Origins>
class Pairing {
 public:
  Pairing(const Run& exact, const Run& got, const Flow& of_exact, const Flow& of_got, const Origins& origins)
      : exact_(exact),
        got_(got),
        of_exact_(of_exact),
        of_got_(of_got),
        origins_(origins),
        exact_readers_(readers_in(exact, of_exact)),
        got_readers_(readers_in(got, of_got)),
        paired_(got.size()) {}

  /// The float operator whose value is nearest to that of an int8 operator, unless what the int8 run computes
  /// of it is nearer to the same.
  [[nodiscard]] std::optional<std::size_t> place_of(std::size_t op) {
    const Places candidates = candidates_for(op);
    const Nearest own = nearest(op, candidates);
    if (!own.place) return std::nullopt;
    for (const std::size_t later : forward_from(got_readers_, op)) {
      if (later == op || !is_compared(got_[later])) continue;
      const Nearest other = nearest(later, candidates);
      if (other.place == own.place && other.error < own.error) return std::nullopt;
    }
    return own.place;
  }

  void pair(std::size_t op, std::size_t place) {
    paired_[op] = place;
    taken_.insert(place);
  }

  /// Of a pair: what the int8 operator computes in one.
  void describe(OperatorPair& pair) const {
    const auto origin = of_exact_.origins[pair.last];
    const std::optional<int> call = call_of(pair);
    // A kernel of a layer may add what other layers have made.
    const auto is_inside = [&](std::size_t op) {
      const auto own = of_exact_.origins[op];
      return !taken_.contains(op) &&
             (own == origin || (call && std::ranges::binary_search(origins_[own], *call)));
    };
    const std::unordered_set<std::size_t> region = back_from(exact_, pair.last, is_inside);
    pair.operators.assign(region.begin(), region.end());
    std::ranges::sort(pair.operators);
    const auto find = [&](auto is_wanted) {
      const auto found = std::ranges::find_if(pair.operators, is_wanted);
      return found == pair.operators.end() ? std::nullopt : std::optional(*found);
    };
    const auto layer = find([&](std::size_t op) { return call && of_exact_.calls[op] == call; });
    const auto computing = find([&](std::size_t op) { return !exact_[op].is_view; });
    pair.is_layer = layer.has_value();
    pair.first = layer ? *layer : computing.value_or(pair.last);
    pair.kernel = layer ? first_with_weight(*call, pair.got) : pair.got;
    find_inputs(pair);
  }

 private:
  /// The candidate that is nearest to the value of an int8 operator. The distance is not relative to the
  /// float value: what follows a ReLU is never nearer to its input than to its output, however wrong it is.
  [[nodiscard]] Nearest nearest(std::size_t op, const Places& candidates) {
    Nearest best;
    for (const std::size_t place : candidates) {
      const double error = distance(op, place);
      if (error < best.error) best = {.place = place, .error = error};
    }
    return best;
  }

  /// Infinite where they do not fit.
  double distance(std::size_t op, std::size_t place) {
    const auto [known, is_new] = distances_.try_emplace({op, place}, Nearest().error);
    const at::Tensor& wanted = exact_[place].output;
    if (!is_new || !fits(wanted, got_[op].output)) return known->second;
    ErrorSums difference;
    add_difference(difference, wanted, in_float(got_[op].output).reshape_as(wanted));
    return known->second = difference.error;
  }

  /// The float values of the same origin that no other operator stands for, and that come from those that
  /// what `op` reads stands for.
  [[nodiscard]] Places candidates_for(std::size_t op) const {
    const auto origin = of_got_.origins[op];
    std::unordered_set<std::size_t> before;
    back_from(got_, op, [&](std::size_t place) {
      if (of_got_.origins[place] != origin) return false;
      if (!paired_[place]) return true;
      before.insert(*paired_[place]);
      return false;
    });
    Places candidates;
    const auto members = of_exact_.members.find(origin);
    if (members == of_exact_.members.end()) return candidates;
    std::vector<std::unordered_set<std::size_t>> after;
    for (const std::size_t each : before) after.push_back(forward_from(exact_readers_, each));
    for (const std::size_t place : members->second) {
      const bool comes_after =
          std::ranges::all_of(after, [&](const auto& each) { return each.contains(place); });
      if (comes_after && !taken_.contains(place)) candidates.push_back(place);
    }
    return candidates;
  }

  /// The first operator of a call that reads more than one tensor, or packed params; else `last`.
  [[nodiscard]] std::size_t first_with_weight(int call, std::size_t last) const {
    for (std::size_t i = 0; i < last; ++i) {
      if (of_got_.calls[i] != call || !is_compared(got_[i])) continue;
      const auto tensors = std::ranges::count_if(got_[i].inputs, &at::IValue::isTensor);
      if (tensors > 1 || std::ranges::any_of(got_[i].inputs, &at::IValue::isObject)) return i;
    }
    return last;
  }

  /// The call of a layer that an int8 operator is part of: its own, or of an operator that follows the
  /// kernel, as a division after a sum, that of the kernel.
  [[nodiscard]] std::optional<int> call_of(const OperatorPair& pair) const {
    if (of_got_.calls[pair.got]) return of_got_.calls[pair.got];
    const auto origin = of_got_.origins[pair.got];
    const std::unordered_set<std::size_t> before = back_from(
        got_, pair.got, [&](std::size_t op) { return of_got_.origins[op] == origin && !paired_[op]; });
    const auto kernel = std::ranges::find_if(
        before, [&](std::size_t op) { return of_got_.calls[op].has_value() && is_compared(got_[op]); });
    return kernel == before.end() ? std::nullopt : of_got_.calls[*kernel];
  }

  /// What makes a tensor, apart from conversions, views and operators that return their input.
  static Source maker(const Run& run, Source source) {
    const auto returns_input = [](const Captured& op) {
      return op.overwrites && op.input.defined() && op.input.sizes() == op.output.sizes() &&
             at::isFloatingType(op.input.scalar_type()) && at::equal(op.input, op.output);
    };
    while (source.kind == Source::Kind::Operator) {
      const Captured& op = run[source.index];
      if (op.reads.empty()) return {};  // it is made of no tensor
      if (!(op.is_view || bench::is_conversion(op.kind) || returns_input(op))) break;
      source = op.reads.front();
    }
    return source;
  }

  [[nodiscard]] bool are_one(const Source& exact, const Source& got) const {
    if (exact.kind != got.kind) return false;
    if (exact.kind == Source::Kind::Operator) return paired_[got.index] == exact.index;
    return exact.kind == Source::Kind::Argument && exact.index == got.index;
  }

  /// Which tensor of a layer is its input: the first that the model does not hold itself.
  static std::size_t input_of(const Captured& op) {
    const auto found = std::ranges::find_if(
        op.reads, [](const Source& source) { return source.kind != Source::Kind::Constant; });
    return found == op.reads.end() ? 0 : static_cast<std::size_t>(found - op.reads.begin());
  }

  /// As it was when the operator ran, of the first.
  static at::Tensor tensor_of(const Captured& op, const std::vector<at::Tensor>& tensors, std::size_t place) {
    return place == 0 && op.input.defined() ? op.input : tensors[place];
  }

  void find_inputs(OperatorPair& pair) const {
    const Captured& op = got_[pair.got];
    const std::vector<at::Tensor> own = tensors_of(op.inputs);
    pair.inputs.resize(own.size());
    pair.input = input_of(op);
    pair.has_all_inputs = !own.empty();
    for (std::size_t i = 0; i < std::min(own.size(), op.reads.size()); ++i) {
      const Source source = maker(got_, op.reads[i]);
      if (maker_of(source) != nullptr) pair.makers.push_back(source.index);
      if (pair.is_layer && i == pair.input) {
        pair.inputs[i] = input_of_layer(exact_[pair.first], own[i]);
      } else {
        if (source.kind == Source::Kind::Constant) continue;
        pair.inputs[i] = value_from(source, own[i], pair.operators);
      }
      if (!pair.inputs[i]) pair.has_all_inputs = false;
    }
    if (std::ranges::none_of(pair.inputs, &std::optional<at::Tensor>::has_value)) pair.has_all_inputs = false;
  }

  static std::optional<at::Tensor> input_of_layer(const Captured& layer, const at::Tensor& own) {
    const std::vector<at::Tensor> tensors = tensors_of(layer.inputs);
    const std::size_t place = input_of(layer);
    if (place >= tensors.size() || !fits(tensors[place], own)) return std::nullopt;
    return tensor_of(layer, tensors, place);
  }

  /// The float value that one of the operators reads from the same maker.
  [[nodiscard]] std::optional<at::Tensor> value_from(const Source& source, const at::Tensor& own,
                                                     const Places& operators) const {
    for (const std::size_t place : operators) {
      const Captured& op = exact_[place];
      const std::vector<at::Tensor> tensors = tensors_of(op.inputs);
      for (std::size_t i = 0; i < std::min(tensors.size(), op.reads.size()); ++i) {
        if (fits(tensors[i], own) && are_one(maker(exact_, op.reads[i]), source))
          return tensor_of(op, tensors, i);
      }
    }
    return std::nullopt;
  }

  const Run& exact_;
  const Run& got_;
  const Flow& of_exact_;
  const Flow& of_got_;
  const Origins& origins_;
  std::vector<Places> exact_readers_;
  std::vector<Places> got_readers_;
  std::map<std::pair<std::size_t, std::size_t>, double> distances_{};
  std::vector<std::optional<std::size_t>> paired_;  ///< of each int8 operator the float one
  std::unordered_set<std::size_t> taken_{};
};

}  // namespace

bool is_compared(const Captured& op) {
  if (!op.output.defined() || op.is_view || op.output.numel() == 0 || op.reads.empty()) return false;
  return !bench::is_conversion(op.kind) &&
         (op.output.is_quantized() || at::isFloatingType(op.output.scalar_type()));
}

OperatorPairs::Origin OperatorPairs::origin_of(std::vector<int> set) {
  // Arguments are less than zero. They tell where no layer does.
  if (!set.empty() && set.back() >= 0) std::erase_if(set, [](int each) { return each < 0; });
  const auto [known, is_new] = known_.try_emplace(std::move(set), sets_.size());
  if (is_new) sets_.push_back(known->first);
  return known->second;
}

OperatorPairs::Origin OperatorPairs::united(Origin a, Origin b) {
  if (a == b) return a;
  const auto [known, is_new] = unions_.try_emplace(std::minmax(a, b));
  if (is_new) {
    std::vector<int> both;
    std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(both));
    known->second = origin_of(std::move(both));
  }
  return known->second;
}

/// A call begins with an operator that takes a weight which the call before has taken. What an operator makes
/// of weights alone, as their dequantization, belongs to the call, and so does what reads it.
std::vector<std::optional<OperatorPairs::Call>> OperatorPairs::calls_of(
    const Run& run, const std::set<std::string>& layers) const {
  struct Latest {
    std::size_t turn{0};
    std::set<const void*> taken{};
  };
  std::map<std::string, Latest> latest;
  std::vector<std::optional<Call>> calls(run.size());
  std::vector<bool> is_preparation(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    const Captured& op = run[i];
    if (!op.attributes.empty() && layers.contains(op.layer)) {
      Latest& call = latest[op.layer];
      if (std::ranges::any_of(op.attributes, [&](const void* each) { return call.taken.contains(each); }))
        call = {.turn = call.turn + 1};
      call.taken.insert(op.attributes.begin(), op.attributes.end());
      calls[i] = {op.layer, call.turn};
    }
    bool reads_others = false;
    for (const Source& source : op.reads) {
      const bool is_prepared = maker_of(source) != nullptr && is_preparation[source.index];
      if (is_prepared && !calls[i]) calls[i] = calls[source.index];
      if (!is_prepared && source.kind != Source::Kind::Constant) reads_others = true;
    }
    is_preparation[i] = calls[i] && !reads_others;
  }
  return calls;
}

OperatorPairs::Flow OperatorPairs::flow_of(const Run& run, const std::vector<std::optional<Call>>& calls,
                                           const std::map<std::string, std::size_t>& most) {
  Flow flow{.calls = std::vector<std::optional<int>>(run.size())};
  const Origin nowhere = origin_of({});
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (calls[i] && calls[i]->second < most.at(calls[i]->first))
      flow.calls[i] = numbers_.try_emplace(*calls[i], static_cast<int>(numbers_.size())).first->second;
    // What a layer reads first is its input, and the layer tells where the rest comes from.
    bool is_input = flow.calls[i].has_value();
    Origin origin = is_input ? origin_of({*flow.calls[i]}) : nowhere;
    for (const Source& source : run[i].reads) {
      if (source.kind == Source::Kind::Constant) continue;
      const bool is_within =
          maker_of(source) != nullptr && flow.calls[i] && flow.calls[source.index] == flow.calls[i];
      if (!is_within && std::exchange(is_input, false)) continue;
      origin = united(origin, maker_of(source) != nullptr ? flow.origins[source.index]
                                                          : origin_of({-1 - static_cast<int>(source.index)}));
    }
    flow.origins.push_back(origin);
  }
  return flow;
}

std::vector<OperatorPair> OperatorPairs::find(const Run& exact, const Run& got) {
  std::set<std::string> layers = layers_with_weights(got);
  const std::set<std::string> others = layers_with_weights(exact);
  const bool have_layers = !layers.empty() && !others.empty();
  std::erase_if(layers, [&](const std::string& layer) { return !others.contains(layer); });
  if (have_layers && layers.empty()) return {};  // they are not the same model
  const std::vector<std::optional<Call>> exact_calls = calls_of(exact, layers);
  const std::vector<std::optional<Call>> got_calls = calls_of(got, layers);
  std::map<std::string, std::size_t> in_exact;
  std::map<std::string, std::size_t> most;
  for (const auto& call : exact_calls) {
    if (call) in_exact[call->first] = call->second + 1;
  }
  for (const auto& call : got_calls) {
    if (call) most[call->first] = std::min(call->second + 1, in_exact[call->first]);
  }
  Flow of_exact = flow_of(exact, exact_calls, most);
  Flow of_got = flow_of(got, got_calls, most);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (is_candidate(exact[i])) of_exact.members[of_exact.origins[i]].push_back(i);
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (is_compared(got[i])) of_got.members[of_got.origins[i]].push_back(i);
  }

  Pairing pairing(exact, got, of_exact, of_got, sets_);
  std::vector<OperatorPair> pairs;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!is_compared(got[i])) continue;
    const Origin origin = of_got.origins[i];
    const Places& members = of_exact.members[origin];
    const std::pair key(origin, of_got.position[origin]++);
    const auto known = rows_.find(key);
    std::optional<std::size_t> place;
    if (known == rows_.end()) {
      place = pairing.place_of(i);
    } else if (known->second.second < members.size()) {
      place = members[known->second.second];
    }
    if (!place || !fits(exact[*place].output, got[i].output)) continue;
    if (known == rows_.end()) {
      const auto at = std::ranges::find(members, *place) - members.begin();
      rows_.emplace(key, std::pair(rows_.size(), static_cast<std::size_t>(at)));
    }
    OperatorPair pair{.row = rows_.at(key).first, .got = i, .kernel = i, .first = *place, .last = *place};
    pairing.describe(pair);
    pairing.pair(i, *place);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace tsq::detail
