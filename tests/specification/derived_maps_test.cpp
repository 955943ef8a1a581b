// The functions of torch/ao/quantization/backend_config/utils.py on every shipped table, against the wheel's.
#include <gtest/gtest.h>
#include <tsq/backends.h>
#include <tsq/derived_maps.h>

#include <algorithm>

#include "backends/pytorch_tables.h"
#include "specification/quotations.h"

namespace tsq {
namespace derived_maps_test {

using nlohmann::json;

class DerivedMaps : public testing::Test {
 protected:
  void SetUp() override {
    tables_ = pytorch_tables();
    if (tables_.contains("unavailable"))
      GTEST_SKIP() << "not compared with PyTorch: " << tables_.at("unavailable").get<std::string>();
  }

  /// Compares ours with theirs on every table and returns how many entries were compared.
  template <typename Ours>
  std::size_t compare(const char* key, const Ours& ours) const {
    std::size_t entries = 0;
    for (const auto& [name, maps] : tables_.at("derived_maps").items()) {
      EXPECT_EQ(ours(backend_config(name)), maps.at(key)) << name << ", " << key;
      entries += maps.at(key).size();
    }
    return entries;
  }

  json tables_{};
};

/// A pattern in FX's reversed nested tuples.
json nested(const Pattern& pattern) {
  const bool is_literal = pattern.symbol.kind == SymbolKind::Literal;
  json own = is_literal ? json(std::stoi(std::string(pattern.symbol.name))) : json(pattern.symbol.name);
  if (pattern.args.empty()) return own;
  json list = json::array({std::move(own)});
  for (const Pattern& arg : pattern.args) list.push_back(nested(arg));
  return list;
}

template <typename Value, typename ToJson>
json pairs(const PatternMap<Value>& map, const ToJson& to_json) {
  json list = json::array();
  for (const auto& [pattern, value] : map) list.push_back(json::array({nested(pattern), to_json(value)}));
  return list;
}

json sorted_names(std::vector<Symbol> symbols) {
  std::ranges::sort(symbols, {}, &Symbol::name);
  json list = json::array();
  for (const Symbol& symbol : symbols) list.push_back(symbol.name);
  return list;
}

json name_of(const Symbol& symbol) { return symbol.name; }

TEST_F(DerivedMaps, DTypeConfigsOfEveryPattern) {
  TSQ_SAYS("utils", "def get_pattern_to_dtype_configs(backend_config) -> dict[Pattern, list[DTypeConfig]]");
  const auto to_json = [](const std::vector<DTypeConfig>& configs) {
    json list = json::array();
    for (const DTypeConfig& config : configs) list.push_back(config.to_dict());
    return list;
  };
  EXPECT_GT(compare("pattern_to_dtype_configs",
                    [&](const BackendConfig& backend) {
                      return pairs(get_pattern_to_dtype_configs(backend), to_json);
                    }),
            500u);
}

TEST_F(DerivedMaps, ClassesOfTrainingAndOfFusion) {
  TSQ_SAYS("utils", "def get_qat_module_classes(backend_config) -> tuple[type, ...]");
  EXPECT_GT(
      compare("qat_module_classes",
              [](const BackendConfig& backend) { return sorted_names(get_qat_module_classes(backend)); }),
      50u);
  TSQ_SAYS("utils", "def get_fused_module_classes(backend_config) -> tuple[type, ...]");
  EXPECT_GT(
      compare("fused_module_classes",
              [](const BackendConfig& backend) { return sorted_names(get_fused_module_classes(backend)); }),
      50u);
}

TEST_F(DerivedMaps, IndicesOfInputsOfEveryPattern) {
  TSQ_SAYS("utils",
           "def get_pattern_to_input_type_to_index(backend_config) -> dict[Pattern, dict[str, int]]");
  EXPECT_GT(compare("pattern_to_input_type_to_index",
                    [](const BackendConfig& backend) {
                      return pairs(get_pattern_to_input_type_to_index(backend),
                                   [](const std::map<std::string, int>& map) { return json(map); });
                    }),
            500u);
}

TEST_F(DerivedMaps, ReferenceModulesOfRoots) {
  TSQ_SAYS("README",
           "both the root module and the reference quantized module must be specified in the same "
           "BackendPatternConfig in order for the conversion to take place");
  EXPECT_GT(
      compare("root_module_to_quantized_reference_module",
              [](const BackendConfig& backend) {
                json list = json::array();
                for (const auto& [root, reference] : get_root_module_to_quantized_reference_module(backend))
                  list.push_back(json::array({root.name, reference.name}));
                return list;
              }),
      50u);
}

TEST(RootModules, HalvesInTwoRowsAreNoPairAndTheLastPairCounts) {
  TSQ_SAYS("BackendPatternConfig",
           "Since this is a one-to-one mapping, both the root module and the reference quantized module must "
           "be specified in the same BackendPatternConfig");
  const Symbol linear = symbol("torch.nn.Linear");
  const Symbol reference = symbol("torch.ao.nn.quantized.reference.Linear");
  BackendConfig backend("mine");
  backend.set_backend_pattern_config(BackendPatternConfig{linear}.set_root_module(linear))
      .set_backend_pattern_config(
          BackendPatternConfig{symbol("torch.nn.ReLU")}.set_reference_quantized_module(reference));
  EXPECT_TRUE(get_root_module_to_quantized_reference_module(backend).empty());
  for (const Symbol& other : {reference, symbol("mine.Reference")}) {
    backend.set_backend_pattern_config(BackendPatternConfig{symbol(other == reference ? "mine.A" : "mine.B")}
                                           .set_root_module(linear)
                                           .set_reference_quantized_module(other));
  }
  const auto map = get_root_module_to_quantized_reference_module(backend);
  ASSERT_EQ(map.size(), 1u);
  EXPECT_EQ(map.front(), std::pair(linear, symbol("mine.Reference")));
}

TEST_F(DerivedMaps, FusersOfFusions) {
  TSQ_SAYS("utils", "both the fuser method and the pattern are specified in forward order");
  EXPECT_GT(compare("fuser_method_mapping",
                    [](const BackendConfig& backend) {
                      return pairs(get_fuser_method_mapping(backend),
                                   [](const FuserMethod& fuser) { return json(fuser.name); });
                    }),
            100u);
}

TEST_F(DerivedMaps, ModulesOfTraining) {
  TSQ_SAYS("utils", "def get_module_to_qat_module(backend_config) -> dict[Pattern, type[torch.nn.Module]]");
  EXPECT_GT(
      compare("module_to_qat_module",
              [](const BackendConfig& backend) { return pairs(get_module_to_qat_module(backend), name_of); }),
      50u);
}

TEST_F(DerivedMaps, GettersOfFusions) {
  const auto text = [](const std::string& name) { return json(name); };
  TSQ_SAYS("utils", "Get a map from fusion pattern to a function that returns the root node");
  EXPECT_GT(compare("fusion_pattern_to_root_node_getter",
                    [&](const BackendConfig& backend) {
                      return pairs(get_fusion_pattern_to_root_node_getter(backend), text);
                    }),
            10u);
  TSQ_SAYS("utils", "Get a map from fusion pattern to a function that returns extra input nodes");
  EXPECT_GT(compare("fusion_pattern_to_extra_inputs_getter",
                    [&](const BackendConfig& backend) {
                      return pairs(get_fusion_pattern_to_extra_inputs_getter(backend), text);
                    }),
            10u);
}

TEST_F(DerivedMaps, NamesAfterBooleanDispatch) {
  TSQ_SAYS("utils", "this function replaces them with the hardcoded function names");
  ASSERT_EQ(tables_.at("boolean_dispatches").size(), 8u);
  for (const json& name : tables_.at("boolean_dispatches"))
    EXPECT_EQ(remove_boolean_dispatch_from_name(symbol(name.get<std::string>())), name);
}

TEST_F(DerivedMaps, EntriesForPeople) {
  TSQ_SAYS(
      "utils",
      "Given a backend_config_dict entry, returns a string with the human readable representation of it");
  EXPECT_GT(compare("entries",
                    [](const BackendConfig& backend) {
                      json list = json::array();
                      for (const BackendPatternConfig& row : backend.configs())
                        list.push_back(entry_to_pretty_str(row.to_dict()));
                      return list;
                    }),
            500u);
}

TEST(HumanReadable, PatternsNest) {
  TSQ_SAYS("utils", "nested patterns, recurse");
  EXPECT_EQ(pattern_to_human_readable("view"), "view");
  EXPECT_EQ(pattern_to_human_readable({"torch.nn.ReLU", {"operator.add", "MatchAllNode", "torch.nn.Conv2d"}}),
            "(torch.nn.ReLU, (operator.add, MatchAllNode, torch.nn.Conv2d))");
}

}  // namespace derived_maps_test
}  // namespace tsq
