#include "passes/ranges/sample_ranks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

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

std::vector<std::string> plain_names(const Model& model, const Node* node) {
  std::vector<std::string> names;
  for (const Symbol& target : ir::targets(model, node)) names.push_back(plain_name(target.name));
  return names;
}

template <typename Table>
std::optional<int64_t> rank_in(const Table& table, const std::vector<std::string>& names) {
  for (const SampleRank& row : table) {
    if (std::ranges::find(names, row.name) != names.end()) return row.rank;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> sample_rank(const Model& model, const Node* node) {
  if (const ir::Weighted* weighted = weighted_at(model, node))
    return static_cast<int64_t>(weighted->stride.size()) + 1;
  const std::vector<std::string> names = plain_names(model, node);
  if (const auto pool = rank_in(kPools, names)) return pool;
  return ir::is_module_call(node) ? std::nullopt : rank_in(kFunctionalLayers, names);
}

std::optional<int64_t> rank_of_normed_sample(const Model& model, const Node* node) {
  return ir::is_module_call(node) ? rank_in(kNormModules, plain_names(model, node)) : std::nullopt;
}

bool is_elementwise(const Model& model, const Node* node) {
  return operators::is_elementwise(operators::traits_of(model, node));
}

bool is_sum(const Model& model, const Node* node) {
  return operators::has(operators::traits_of(model, node), operators::ElementwiseOfTwo) ||
         std::ranges::any_of(plain_names(model, node), [](const std::string& name) {
           return std::ranges::find(kFusedSums, name) != kFusedSums.end();
         });
}

}  // namespace tsq::passes
