#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <algorithm>

#include "ir/analysis.h"
#include "passes/passes.h"
#include "support/small_models.h"

namespace tsq {
namespace {

using torch::jit::Module;

struct Observed {
  ir::Model gm;
  Report report;
};

Observed observed(const Module& model, const QConfigMapping& mapping, std::string_view backend_name = "x86") {
  const BackendConfig backend = backend_config(backend_name);
  Observed result{.gm = passes::capture(model, {}), .report = {}};
  passes::normalise(result.gm);
  passes::fuse(result.gm, backend);
  const passes::MatchTable table = passes::match(result.gm, mapping, backend);
  passes::observe(result.gm, table, backend, {}, result.report);
  return result;
}

/// Indices of the observers in graph order: equal numbers share one instance.
std::vector<std::size_t> observers_of(const ir::Model& gm) {
  std::vector<std::size_t> result;
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (ir::is_observer(node)) result.push_back(ir::observer_index(node));
  }
  return result;
}

TEST(Observe, AConvGetsAnObserverBeforeAndAfter) {
  EXPECT_EQ(observers_of(observed(testing::conv_bn_relu(), default_qconfig_mapping("x86")).gm),
            (std::vector<std::size_t>{0, 1}));
}

TEST(Observe, APoolSharesTheObserverOfItsInput) {  // D-28, D-29
  Module model = testing::user_module("Pool");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("pool", testing::max_pool2d());
  model.define("def forward(self, x):\n  return self.pool.forward(self.conv.forward(x))\n");
  EXPECT_EQ(observers_of(observed(model, default_qconfig_mapping("x86")).gm),
            (std::vector<std::size_t>{0, 1, 1}));
}

TEST(Observe, CatImposesTheFirstElementsObserver) {  // D-31
  Module model = testing::user_module("Cat");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return torch.cat([self.a.forward(x), self.b.forward(x)], 1)\n");
  EXPECT_EQ(observers_of(observed(model, default_qconfig_mapping("x86")).gm),
            (std::vector<std::size_t>{0, 1, 1, 1}));
}

TEST(Observe, TwoConvsOnOneInputShareItsObserver) {  // D-22
  Module model = testing::user_module("TwoConvs");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.a.forward(x), self.b.forward(x)\n");
  EXPECT_EQ(observers_of(observed(model, default_qconfig_mapping("x86")).gm).size(), 3u);
}

TEST(Observe, NothingIsObservedUnderAnEmptyMapping) {
  const Observed result = observed(testing::conv_bn_relu(), {});
  EXPECT_TRUE(observers_of(result.gm).empty());
  ASSERT_EQ(result.report.decisions.size(), 1u);
  EXPECT_FALSE(result.report.decisions.front().quantized);
  EXPECT_EQ(result.report.decisions.front().reason, "no qconfig applies to it");
}

TEST(Observe, AModuleNameWithoutQConfigStaysFloatAndSaysWhy) {
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_module_name("conv", std::nullopt);
  const Observed result = observed(testing::conv_bn_relu(), mapping);
  EXPECT_TRUE(observers_of(result.gm).empty());
  EXPECT_EQ(result.report.decisions.front().reason, "its qconfig is none (module name 'conv')");
}

TEST(Observe, SaysWhichDTypeCheckRefused) {  // D-05, D-06
  QConfig qint8 = default_qconfig("x86");
  qint8.activation.dtype = c10::ScalarType::QInt8;
  qint8.activation.reduce_range.reset();
  const Observed result = observed(testing::conv_bn_relu(), QConfigMapping().set_global(qint8));
  EXPECT_EQ(result.report.decisions.front().refusals,
            std::vector<std::string>{"input is qint8, the backend's config takes quint8"});
}

}  // namespace
}  // namespace tsq
