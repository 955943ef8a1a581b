#pragma once

#include <tsq/error.h>
#include <tsq/report.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Weights that an engine refused to pack, by packing operator and memory, with its reason.
using PackingRefusals = std::map<std::pair<std::string, const void*>, std::string>;

/// The reason for which an engine refused a weight; null where it did not.
const std::string* refusal_of(const PackingRefusals& refusals, std::string_view prepack,
                              const ir::Weighted& weighted);

/// How a packed weight is used.
struct PackingSite {
  const ir::Node* op{};       ///< the float operator
  std::string_view kernel{};  ///< that reads the packed weight
  std::string_view prepack{};
  std::string path{};           ///< of the layer: names the attribute
  ir::Node* before{};           ///< new nodes are put in front of it
  bool input_has_zero_point{};  ///< other than 0: some weights are packed otherwise then
};

/// The packed weights of one graph: asked for one by one, then packed together.
class WeightPacking {
 public:
  explicit WeightPacking(ir::GraphModule& gm) : gm_(gm) {}

  /// The packed weight as a value of the graph, where it packs when it is loaded an attribute of the module
  /// that does so. Calls of one module share it, where the engine allows that.
  ir::Value* packed(const ir::Weighted& weighted, const PackingSite& site);
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
    at::Tensor quantized{};  ///< the weight in a memory that others pack as well; undefined: in its own
    c10::IValue result{};
    std::string refusal{};
  };

  /// Weights that are packed several times are quantized once: what packs keep of them is one memory, which a
  /// file holds once.
  void share_quantized();
  static void pack(Packing& packing);
  ir::Value* get_attribute(ir::Value* owner, const std::string& name, ir::Node* before);
  [[nodiscard]] std::string unique_name(const std::string& path) const;

  ir::GraphModule& gm_;
  std::map<std::string, std::string> names_;  ///< of attributes, by what they hold
  std::vector<Packing> to_pack_;
  std::vector<std::pair<ir::Value*, std::string>> owners_;  ///< modules that pack when loaded, their names
};

/// Lowers a graph: `attempt(gm, report, refusals)` is given copies of both until it returns true, which it
/// does unless the engine refused a weight that it had not refused before. Throws Error(Internal) where that
/// does not end.
template <typename Attempt>
void lower_with_refusals(ir::GraphModule& gm, Report& report, const Attempt& attempt) {
  PackingRefusals refusals;
  while (true) {
    ir::GraphModule tried = gm.copy();
    Report result = report;
    const std::size_t known = refusals.size();
    if (attempt(tried, result, refusals)) {
      gm = std::move(tried);
      report = std::move(result);
      return;
    }
    if (refusals.size() == known)
      throw Error(ErrorCode::Internal, "the engine refuses a weight that it refused before");
  }
}

}  // namespace tsq::passes
