#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trial/captured.h"

/// Which operators of a float run and of an int8 run of one model compute the same values.
namespace tsq::detail {

/// An operator of the int8 run, and the float operators that it computes.
struct OperatorPair {
  std::size_t row{0};     ///< the same one in each run of these models
  std::size_t got{0};     ///< of the int8 run
  std::size_t kernel{0};  ///< the first of the same call with a weight: a sum with the bias may follow it
  std::size_t first{0};   ///< of the float run: the layer, or the first of the operators that `got` computes
  std::size_t last{0};    ///< of the float run: the one whose value that of `got` is to equal
  bool is_layer{false};   ///< `first` has the weight of the same layer
  /// What `got` reads, as the float run has it, for each tensor; none of what the model holds itself, or
  /// where nothing tells.
  std::vector<std::optional<at::Tensor>> inputs{};
  std::size_t input{0};                  ///< which of them is the layer's input
  bool has_all_inputs{false};            ///< of all that the model does not hold itself
  std::vector<std::size_t> makers{};     ///< of the int8 run: what makes the inputs, apart from conversions
  std::vector<std::size_t> operators{};  ///< of the float run that `got` computes, in their order
};

/// Whether a value of the int8 model is compared: computed, and of real numbers.
[[nodiscard]] bool is_compared(const Captured& op);

/// Finds pairs by calls. A call of a layer is told by the weight that it takes: the k-th in the one run is
/// the k-th in the other. All other operators are told by what they read: the layers and arguments that their
/// value comes from without a layer between. A kernel may compute several operators in one; so names of
/// modules without weights tell nothing, since one of several calls may be part of another kernel. Among the
/// float operators that come from the same layers, an int8 value stands for the nearest. For the runs of two
/// models; what is a pair in one run is one in all that follow.
class OperatorPairs {
 public:
  /// The pairs in the order of the int8 run.
  std::vector<OperatorPair> find(const std::vector<Captured>& exact, const std::vector<Captured>& got);

 private:
  /// A set of layers' calls, or of arguments where there are none. Numbered.
  using Origin = std::size_t;

  /// The operators of a run with the calls of layers that they belong to, and where their values come from.
  struct Flow {
    std::vector<std::optional<int>> calls{};
    std::vector<Origin> origins{};
    std::map<Origin, std::vector<std::size_t>> members{};  ///< those that may be part of a pair
    std::map<Origin, std::size_t> position{};
  };

  using Call = std::pair<std::string, std::size_t>;  ///< a layer, and which of its calls

  std::vector<std::optional<Call>> calls_of(const std::vector<Captured>& run,
                                            const std::set<std::string>& layers) const;
  Flow flow_of(const std::vector<Captured>& run, const std::vector<std::optional<Call>>& calls,
               const std::map<std::string, std::size_t>& most);
  Origin origin_of(std::vector<int> set);
  Origin united(Origin a, Origin b);

  std::map<Call, int> numbers_{};  ///< of calls
  std::map<std::vector<int>, Origin> known_{};
  std::vector<std::vector<int>> sets_{};
  std::map<std::pair<Origin, Origin>, Origin> unions_{};
  /// By origin and place among its members: the row, and the place of the float value among those of the same
  /// origin.
  std::map<std::pair<Origin, std::size_t>, std::pair<std::size_t, std::size_t>> rows_{};
};

}  // namespace tsq::detail
