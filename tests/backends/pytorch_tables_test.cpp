// The shipped tables, QConfigs and mappings against those of the PyTorch wheel (A-07, A-34, B-21 … B-24).
#include "backends/pytorch_tables.h"

#include <gtest/gtest.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>

namespace tsq {
namespace pytorch_tables_test {

using nlohmann::json;

class PyTorchTables : public testing::Test {
 protected:
  static void SetUpTestSuite() { tables_ = new json(pytorch_tables()); }
  static void TearDownTestSuite() {
    delete tables_;
    tables_ = nullptr;
  }
  void SetUp() override {
    if (tables_->contains("unavailable"))
      GTEST_SKIP() << "not compared with PyTorch: " << tables_->at("unavailable").get<std::string>();
  }
  static const json& tables() { return *tables_; }

 private:
  static json* tables_;
};

json* PyTorchTables::tables_ = nullptr;

json row_of(const json& table, std::size_t index) {
  return index < table.at("configs").size() ? table.at("configs")[index] : json("no such row");
}

TEST_F(PyTorchTables, EveryShippedBackendIsCompared) {
  for (const BackendEntry& entry : backend_entries())
    EXPECT_TRUE(tables().at("backends").contains(std::string(entry.name))) << entry.name;
  EXPECT_EQ(tables().at("backends").size(), backend_entries().size());
}

TEST_F(PyTorchTables, BackendTablesAreEqualRowForRowAndInOrder) {
  for (const auto& [name, theirs] : tables().at("backends").items()) {
    const json ours = backend_config(name).to_dict();
    EXPECT_EQ(ours.at("name"), theirs.at("name"));
    EXPECT_EQ(ours.at("configs").size(), theirs.at("configs").size()) << name;
    for (std::size_t i = 0; i < theirs.at("configs").size(); ++i)
      ASSERT_EQ(row_of(ours, i), row_of(theirs, i))
          << name << ", row " << i << json::diff(row_of(ours, i), row_of(theirs, i));
    EXPECT_EQ(ours, theirs) << name;
  }
}

TEST_F(PyTorchTables, PyTorchsOwnDictionariesReadBackAsTheShippedTables) {
  for (const auto& [name, theirs] : tables().at("backends").items())
    EXPECT_EQ(BackendConfig::from_dict(theirs), backend_config(name)) << name;
}

TEST_F(PyTorchTables, EveryNamedQConfigIsEqual) {
  const json& theirs = tables().at("named_qconfigs");
  EXPECT_EQ(theirs.size(), qconfig_names().size());
  for (const auto& [name, entry] : theirs.items()) EXPECT_EQ(qconfig(name).to_dict(), entry) << name;
}

TEST_F(PyTorchTables, DefaultQConfigsOfEveryEngineAreEqual) {
  for (const auto& [engine, entry] : tables().at("default_qconfigs").items())
    EXPECT_EQ(default_qconfig(engine).to_dict(), entry) << engine;
}

TEST_F(PyTorchTables, DefaultQatQConfigsOfEveryEngineAndVersionAreEqual) {
  for (const auto& [key, entry] : tables().at("default_qat_qconfigs").items()) {
    const auto slash = key.find('/');
    EXPECT_EQ(default_qat_qconfig(key.substr(0, slash), std::stoi(key.substr(slash + 1))).to_dict(), entry)
        << key;
  }
}

QConfigMapping mapping_of(const std::string& key) {
  if (key == "symmetric_qnnpack") return symmetric_qnnpack_qconfig_mapping();
  if (key == "symmetric_qnnpack/qat") return symmetric_qnnpack_qat_qconfig_mapping();
  const auto qat = key.find("/qat/");
  if (qat == std::string::npos) return default_qconfig_mapping(key);
  return default_qat_qconfig_mapping(key.substr(0, qat), std::stoi(key.substr(qat + 5)));
}

TEST_F(PyTorchTables, DefaultMappingsOfEveryEngineAreEqualInOrder) {
  EXPECT_EQ(tables().at("mappings").size(), 14u);
  for (const auto& [key, entry] : tables().at("mappings").items())
    EXPECT_EQ(mapping_of(key).to_dict(), entry) << key;
}

TEST_F(PyTorchTables, PyTorchsMappingsReadBackAsOurs) {
  for (const auto& [key, entry] : tables().at("mappings").items())
    EXPECT_EQ(QConfigMapping::from_dict(entry), mapping_of(key)) << key;
}

QConfigQuery query_of(const json& entry) {
  return {.targets = {symbol(entry.at("target").get<std::string>())},
          .is_module = entry.at("is_module"),
          .module_path = entry.at("module_path"),
          .module_type = symbol(entry.at("module_type").get<std::string>()),
          .parent_path = entry.at("parent_path"),
          .order_index = entry.at("order_index")};
}

// B-04 … B-12: _generate_node_name_to_qconfig on a nested model under random mappings.
TEST_F(PyTorchTables, EveryNodeGetsTheQConfigThatFxFinds) {
  const json& decisions = tables().at("decisions");
  std::size_t not_global = 0;
  for (const json& entry : decisions.at("cases")) {
    const QConfigMapping mapping = QConfigMapping::from_dict(entry.at("mapping"));
    EXPECT_EQ(QConfigMapping::from_dict(mapping.to_dict()), mapping);
    for (const auto& [node, query] : decisions.at("queries").items()) {
      const QConfigDecision decision = find_qconfig(mapping, query_of(query));
      const json ours = decision.qconfig ? decision.qconfig->to_dict() : json(nullptr);
      ASSERT_EQ(ours, entry.at("qconfigs").at(node)) << node << " by " << decision.key << entry.at("mapping");
      not_global += decision.source > QConfigSource::Global;
    }
  }
  EXPECT_GT(not_global, 1000u);
}

/// What PyTorch's constructed observer shows, of the same names.
json shown(const ResolvedObserver& observer, const json& names) {
  json all = {{"dtype", dtype_name(observer.dtype)},
              {"qscheme", qscheme_name(observer.qscheme)},
              {"reduce_range", observer.reduce_range},
              {"averaging_constant", observer.averaging_constant},
              {"ch_axis", observer.ch_axis},
              {"is_dynamic", observer.is_dynamic},
              {"bins", observer.bins},
              {"scale", observer.scale},
              {"zero_point", observer.zero_point},
              {"has_customized_qrange", observer.has_custom_range}};
  json kept = json::object();
  for (const auto& [name, ignored] : names.items()) {
    if (all.contains(name)) kept[name] = all.at(name);
  }
  // These three are compared for absence as well.
  if (observer.quant_min) kept["quant_min"] = *observer.quant_min;
  if (observer.quant_max) kept["quant_max"] = *observer.quant_max;
  if (observer.eps) kept["eps"] = *observer.eps;
  return kept;
}

TEST_F(PyTorchTables, ResolvedObserversShowWhatPyTorchsInstancesShow) {
  EXPECT_GT(tables().at("observers").size(), 20u);
  for (const json& entry : tables().at("observers")) {
    const ResolvedObserver ours = resolve(ObserverSpec::from_dict(entry.at("spec")));
    EXPECT_EQ(shown(ours, entry.at("resolved")), entry.at("resolved")) << entry.at("spec");
  }
}

/// A range that the dtype cannot hold: PyTorch's constructors take it and the model fails when it runs, ours
/// says so at once.
bool exceeds_dtype(const json& spec) {
  if (!spec.contains("quant_min") || !spec.contains("quant_max") ||
      spec.at("observer") == "PlaceholderObserver")
    return false;
  const std::string dtype = spec.value("dtype", "quint8");
  const bool is_signed = dtype.starts_with("qint") || dtype.starts_with("int");
  return (!is_signed && spec.at("quant_min") < 0) || (dtype == "quint4x2" && spec.at("quant_max") > 15);
}

TEST_F(PyTorchTables, ConstructorsAcceptRefuseAndResolveAsPyTorchs) {
  std::size_t accepted = 0;
  for (const json& entry : tables().at("constructor_grid")) {
    const json& spec = entry.at("spec");
    const json& theirs = entry.at("resolved");
    if (theirs.is_null() || exceeds_dtype(spec)) {
      EXPECT_THROW(ObserverSpec::from_dict(spec), Error) << spec;
    } else {
      ASSERT_NO_THROW(ObserverSpec::from_dict(spec)) << spec;
      EXPECT_EQ(shown(resolve(ObserverSpec::from_dict(spec)), theirs), theirs) << spec;
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 500u);
}

}  // namespace pytorch_tables_test
}  // namespace tsq
