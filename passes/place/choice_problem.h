#pragma once

#include <array>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/choices/choices.h"
#include "backends/choices/rounding_times.h"
#include "optimum/pbqp.h"
#include "passes/context/pass_context.h"

namespace tsq::passes {

/// What a choice takes, and what it adds to the outputs (noise::NoiseByName::of_all).
struct Cost {
  double nanoseconds{0};
  double noise{0};

  /// Of choices that cannot be.
  static constexpr Cost impossible() { return {.nanoseconds = std::numeric_limits<double>::infinity()}; }
  [[nodiscard]] bool is_possible() const { return nanoseconds < impossible().nanoseconds; }
  [[nodiscard]] double at(double price_of_noise) const { return nanoseconds + price_of_noise * noise; }
  Cost& operator+=(const Cost& other) {
    nanoseconds += other.nanoseconds;
    noise += other.noise;
    return *this;
  }
};

/// How an operator computes: in float, or by a kernel of int8 that returns bytes, or floats.
namespace operator_label {
constexpr std::size_t kFloat = 0;
constexpr std::size_t kBytes = 1;
constexpr std::size_t kFloatOutput = 2;
constexpr std::size_t kCount = 3;
}  // namespace operator_label

/// What there is of an observed value: floats as they are; bytes that a kernel returns, and floats of these;
/// bytes for those that read them, and floats as they are for others; floats alone, which kernels that return
/// floats round themselves.
namespace value_label {
constexpr std::size_t kExact = 0;
constexpr std::size_t kReturned = 1;
constexpr std::size_t kRounded = 2;
constexpr std::size_t kRoundedByKernels = 3;
constexpr std::size_t kCount = 4;
}  // namespace value_label

/// One operator that may compute in int8, with those after it that its kernel does, too.
struct ChoosableOperator {
  std::vector<Node*> nodes{};
  std::array<Cost, operator_label::kCount> costs{};
  bool moves{false};         ///< it only moves values: bytes stay what they are
  bool reads_float{false};   ///< as an operator that returns floats it may read floats, too
  bool is_dynamic{false};    ///< its kernel finds the range of what it reads when it runs
  bool is_attention{false};  ///< a program multiplies what is rounded, and floats otherwise: no plan says so

  /// Whether it reads rounded values.
  [[nodiscard]] bool reads_rounded(std::size_t label) const {
    return label == operator_label::kBytes || (label == operator_label::kFloatOutput && !is_dynamic);
  }
};

/// One observer that rounds.
struct ChoosableValue {
  Node* observer{};
  Cost quantize{};    ///< with the noise of rounding
  Cost dequantize{};  ///< of the whole value
};

/// Whether an observer is there for one that reads what it returns: layers whose channels are observed, and
/// those that find ranges when they run.
[[nodiscard]] bool is_of_reader(const ir::Model& model, const Node* observer);

/// Those who read what an observer returns, also through observers of their own.
[[nodiscard]] std::vector<Node*> readers_of_value(const ir::Model& model, const Node* observer);

/// What is decided about a drafted model as one problem: which operators compute in int8, and which values
/// are rounded. Time is that of kernels and of what converts values between them, by the target's profile on
/// one thread; noise is paid once for a weight and once for a value that is rounded. Of what has no choice
/// the time alone is in it.
class ChoiceProblem {
 public:
  /// The model must not change while there is one.
  ChoiceProblem(ir::Model& model, const PassContext& context);

  [[nodiscard]] const std::vector<ChoosableOperator>& operators() const noexcept { return operators_; }
  [[nodiscard]] const std::vector<ChoosableValue>& values() const noexcept { return values_; }
  [[nodiscard]] std::size_t variable_of_value(std::size_t value) const { return operators_.size() + value; }
  /// Null for a node that has no choice.
  [[nodiscard]] const std::size_t* operator_of(const Node* node) const;
  /// Whether somebody reads a value rounded whatever is chosen: blocks and modules hand it on, and what is in
  /// int8 without a choice reads bytes.
  [[nodiscard]] bool hands_on(const Node* reader) const;

  /// Labels: of operators, then of values. Costs are nanoseconds.
  [[nodiscard]] optimum::Problem at(double price_of_noise) const;
  /// With what has no choice.
  [[nodiscard]] Cost cost_of(const std::vector<std::size_t>& labels) const;
  /// What changes with the label of one operator, where all other operators keep theirs, and values take what
  /// is best then.
  [[nodiscard]] Cost cost_around(std::size_t op, std::size_t label, std::vector<std::size_t> labels,
                                 double price_of_noise) const;

 private:
  struct Edge {
    std::size_t a{};
    std::size_t b{};
    std::vector<Cost> costs{};  ///< [label of a · labels of b + label of b]
  };
  /// The least time of some choices of an operator.
  struct Least {
    double nanoseconds{std::numeric_limits<double>::infinity()};
    bool is_known{true};  ///< the time of each of them
    [[nodiscard]] bool is_possible() const { return nanoseconds < Cost::impossible().nanoseconds; }
  };

  void correct_float_times();
  [[nodiscard]] double time_without_choice(const Node* node, const std::vector<kernels::Choice>& choices,
                                           const Least& in_float) const;
  void add_operator(Node* node);
  void add_choosable(Node* node, const std::vector<kernels::Choice>& choices, const Least& in_float);
  void add_value(Node* observer);
  void add(ChoosableOperator op);
  [[nodiscard]] bool reads_quantized_input(const Node* op) const;
  [[nodiscard]] bool multiplies_attention(const Node* node) const;
  void add_attention(Node* node, const std::vector<kernels::Choice>& choices, const Least& in_float);
  bool join(Node* node, double in_float);
  void add_edges();
  void add_edges_of_value(std::size_t value);
  void add_edge(Edge edge);
  [[nodiscard]] bool ends_in_float(const Value* value) const;
  [[nodiscard]] bool must_return_float(const Node* maker, const Value* rounded) const;

  [[nodiscard]] const Cost& cost_of(const Edge& edge, const std::vector<std::size_t>& labels) const;
  template <typename IsMeant>
  [[nodiscard]] Least least_of(const Node* node, const std::vector<kernels::Choice>& choices,
                               const IsMeant& is_meant) const;
  [[nodiscard]] Least in_float_of(const Node* node, const std::vector<kernels::Choice>& choices) const;
  [[nodiscard]] double noise_of(const Node* node) const;
  [[nodiscard]] double noise_of_operator(const Node* op) const;
  [[nodiscard]] bool is_folded_padding(const Node* node) const;
  [[nodiscard]] bool pads_itself(const Node* node) const;
  [[nodiscard]] bool returns_bytes(const Node* node) const;
  [[nodiscard]] bool are_of_one_kernel(const Node* after, const Node* before) const;

  ir::Model& model_;
  const PassContext& context_;
  kernels::Catalogue catalogue_;
  kernels::RoundingTimes times_;
  std::unordered_set<const Node*> of_attention_;
  std::unordered_map<const Node*, double> corrected_{};  ///< nanoseconds in float
  Cost fixed_{};                                         ///< of what has no choice
  std::vector<ChoosableOperator> operators_{};
  std::vector<ChoosableValue> values_{};
  std::vector<std::vector<Cost>> costs_{};  ///< of each variable each label
  std::vector<Edge> edges_{};
  std::vector<std::vector<std::size_t>> edges_of_{};  ///< of each variable
  std::unordered_map<const Node*, std::size_t> index_{};
};

}  // namespace tsq::passes
