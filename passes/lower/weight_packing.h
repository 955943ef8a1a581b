#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/kernels/target.h"
#include "ir/model.h"

namespace tsq::passes {

/// Weights that an engine refused to pack, by packing operator and memory, with its reason.
using PackingRefusals = std::map<std::pair<std::string, const void*>, std::string>;

/// The reason for which an engine refused a weight; null where it did not.
const std::string* refusal_of(const PackingRefusals& refusals, std::string_view prepack,
                              const ir::Weighted& weighted);

/// Whether a node packs a weight when the model runs.
[[nodiscard]] bool is_packing(const ir::Node* node);

/// How a packed weight is used.
struct PackingSite {
  const ir::Node* op{};       ///< the float operator
  std::string_view kernel{};  ///< that reads the packed weight
  std::string_view prepack{};
  std::string path{};           ///< of the layer: names the attribute
  ir::Node* before{};           ///< new nodes are put in front of it
  bool input_has_zero_point{};  ///< other than 0: some weights are packed otherwise then
  int64_t zero_columns{0};      ///< of zeros, after those of the weight of a linear layer
};

/// The packed weights of one graph: asked for one by one, then packed together.
class WeightPacking {
 public:
  WeightPacking(ir::Model& model, const kernels::Target& target);

  /// The packed weight as a value of the graph, where it packs when it is loaded an attribute of the module
  /// that does so. Calls of one module share it, where the engine allows that.
  ir::Value* packed(const ir::Weighted& weighted, const PackingSite& site);
  /// Whether several calls of the model multiply with a weight, or look its rows up.
  [[nodiscard]] bool is_shared(const ir::Weighted& weighted) const;
  /// Packs what was asked for; weights are independent of each other and go side by side. False when the
  /// engine refused one, which is then among `refusals`: the graph is half done.
  bool pack_all(PackingRefusals& refusals);

 private:
  /// A weight to pack and the attribute that gets it.
  struct Packing {
    ir::Weighted weighted;
    std::string prepack;
    std::string name;
    bool when_loaded{false};
    bool input_has_zero_point{false};
    int64_t zero_columns{0};
    at::Tensor quantized{};  ///< the weight in a memory that others pack as well; undefined: in its own
    c10::IValue result{};
    std::string refusal{};
  };

  /// Weights that several calls multiply with are quantized once: what packs keep of them is one memory,
  /// which a file holds once.
  void share_quantized();
  [[nodiscard]] at::Tensor known_quantized(const Packing& packing) const;
  static void pack(Packing& packing);
  std::string unique_name(const std::string& path);

  ir::Model& model_;
  const kernels::Target& target_;
  std::unordered_map<const void*, int> calls_;        ///< that multiply with a weight, by its memory
  std::unordered_map<const void*, int> packings_;     ///< that this pass asked for
  std::vector<ir::EmbeddingTable> tables_;            ///< with symmetric rows
  std::unordered_set<std::string> taken_;             ///< names of attributes
  std::unordered_map<std::string, int> last_number_;  ///< after a name that several asked for
  std::vector<Packing> to_pack_;
  std::vector<std::pair<ir::Value*, std::string>> owners_;  ///< modules that pack when loaded, their names
};

}  // namespace tsq::passes
