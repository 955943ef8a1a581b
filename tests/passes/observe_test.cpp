#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/match/passes.h"
#include "passes/observe/passes.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace observe_test {

using torch::jit::Module;

/// Fused and matched.
ir::Model matched(const Module& module, const passes::PassContext& context) {
  ir::Model model = testing::normalised(module);
  passes::fuse(model, context);
  passes::match(model, context);
  return model;
}

passes::PassContext context_of(const QConfigMapping& mapping) {
  return {.table = backend_config("x86"), .mapping = mapping};
}

ir::Model observed(const Module& module, const QConfigMapping& mapping = default_qconfig_mapping("x86")) {
  const passes::PassContext context = context_of(mapping);
  ir::Model model = matched(module, context);
  passes::observe(model, context);
  return model;
}

/// The records that the report prints, in its order.
std::vector<ir::NodeRecord> reported(const ir::Model& model) {
  std::vector<ir::NodeRecord> records;
  for (const std::size_t index : model.report_order) records.push_back(model.records.at(index));
  return records;
}

/// Indices of the observers in graph order: equal numbers share one instance.
std::vector<std::size_t> observers_of(const ir::Model& model) {
  std::vector<std::size_t> result;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) result.push_back(ir::observer_index(node));
  }
  return result;
}

Module two_convolutions(const std::string& result) {
  Module model = testing::user_module("TwoConvs");
  model.register_module("a", testing::conv2d(3, 3, 3));
  model.register_module("b", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return " + result + "\n");
  return model;
}

TEST(Observe, AConvGetsAnObserverBeforeAndAfter) {
  EXPECT_EQ(observers_of(observed(testing::conv_bn_relu())), (std::vector<std::size_t>{0, 1}));
}

TEST(Observe, APoolSharesTheObserverOfItsInput) {  // D-28, D-29
  Module model = testing::user_module("Pool");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("pool", testing::max_pool2d());
  model.define("def forward(self, x):\n  return self.pool.forward(self.conv.forward(x))\n");
  EXPECT_EQ(observers_of(observed(model)), (std::vector<std::size_t>{0, 1, 1}));
}

TEST(Observe, CatImposesTheFirstElementsObserver) {  // D-31
  EXPECT_EQ(observers_of(observed(two_convolutions("torch.cat([self.a.forward(x), self.b.forward(x)], 1)"))),
            (std::vector<std::size_t>{0, 1, 1, 1}));
}

TEST(Observe, TwoConvsOnOneInputShareItsObserver) {  // D-22
  EXPECT_EQ(observers_of(observed(two_convolutions("self.a.forward(x), self.b.forward(x)"))).size(), 3U);
}

TEST(Observe, AParameterThatALayerReadsIsObserved) {
  const auto with_parameter = [](const std::string& result) {
    Module model = testing::user_module("ReadsParameter");
    model.register_module("conv", testing::conv2d(3, 3, 1));
    model.register_parameter("images", torch::ones({1, 3, 4, 4}), false);
    model.define("def forward(self, x):\n  return " + result + "\n");
    return model;
  };
  EXPECT_EQ(observers_of(observed(with_parameter("x + self.conv.forward(self.images)"))).size(), 4U);
  passes::PassContext context{.table = backend_config("onednn"),
                              .mapping = default_qconfig_mapping("onednn")};
  context.options.recipe = Recipe::Fx;
  ir::Model fused = matched(with_parameter("self.conv.forward(x) + self.images"), context);
  passes::observe(fused, context);
  EXPECT_EQ(observers_of(fused).size(), 3U);
}

TEST(Observe, WhatMasksAreMadeOfIsNotObserved) {  // D-04
  const ir::Model model =
      observed(two_convolutions("self.a.forward(x).masked_fill(self.b.forward(x) > 0, 0.0)"));
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::aten::gt) continue;
    EXPECT_FALSE(ir::is_observer(ir::users(node->output()).front()));
  }
}

TEST(Observe, NothingIsObservedUnderAnEmptyMapping) {
  const passes::PassContext context = context_of({});
  ir::Model model = matched(testing::conv_bn_relu(), context);
  EXPECT_FALSE(passes::observe(model, context));
  EXPECT_TRUE(observers_of(model).empty());
  const auto records = reported(model);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_FALSE(records.front().decision.quantized);
  EXPECT_EQ(records.front().decision.reason, "no qconfig applies to it");
  EXPECT_EQ(records.front().reason, ir::Reason::Mapping);
}

TEST(Observe, AModuleNameWithoutQConfigStaysFloatAndSaysWhy) {
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_module_name("conv", std::nullopt);
  const ir::Model model = observed(testing::conv_bn_relu(), mapping);
  EXPECT_TRUE(observers_of(model).empty());
  EXPECT_EQ(reported(model).front().decision.reason, "its qconfig is none (module name 'conv')");
}

TEST(Observe, SaysWhichDTypeCheckRefused) {  // D-05, D-06
  QConfig qint8 = default_qconfig("x86");
  qint8.activation.dtype = c10::ScalarType::QInt8;
  qint8.activation.reduce_range.reset();
  const auto records = reported(observed(testing::conv_bn_relu(), QConfigMapping().set_global(qint8)));
  EXPECT_EQ(records.front().decision.refusals,
            std::vector<std::string>{"input is qint8, the backend's config takes quint8"});
  EXPECT_EQ(records.front().reason, ir::Reason::Table);
}

TEST(Observe, AMatchIsRefusedUnderTheQConfigOfAnyOfItsOperators) {
  Module model = testing::user_module("ConvReLU");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("relu", testing::relu());
  model.define("def forward(self, x):\n  return self.relu.forward(self.conv.forward(x))\n");
  const DTypeWithConstraints seven_bits{
      .dtype = c10::kQUInt8, .quant_min_lower_bound = 0, .quant_max_upper_bound = 127};
  BackendConfig table("own");
  table.set_backend_pattern_config(
      {.pattern_complex_format = Pattern(symbol("torch.nn.ReLU")(symbol("torch.nn.Conv2d"))),
       .dtype_configs = {{.input_dtype = seven_bits, .output_dtype = seven_bits}}});
  const auto observed_with = [&](bool reduce_range) {
    QConfig qconfig = default_qconfig("x86");
    qconfig.activation.reduce_range = reduce_range;
    const passes::PassContext context{
        .table = table, .mapping = default_qconfig_mapping("x86").set_module_name("conv", qconfig)};
    ir::Model made = matched(model, context);
    passes::observe(made, context);
    return observers_of(made).size();
  };
  EXPECT_EQ(observed_with(true), 2U);
  EXPECT_EQ(observed_with(false), 0U);
}

TEST(Observe, TheReportIsInTheOrderOfTheGraph) {
  const auto records = reported(observed(two_convolutions("self.b.forward(torch.erf(self.a.forward(x)))")));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].decision.layer, "a");
  EXPECT_EQ(records[1].decision.op, "aten::erf");
  EXPECT_EQ(records[1].reason, ir::Reason::Table);
  EXPECT_EQ(records[2].decision.layer, "b");
  EXPECT_EQ(records[2].reason, ir::Reason::None);
}

TEST(Observe, WhatWasLeftFloatBeforeKeepsItsReason) {
  const passes::PassContext context = context_of(default_qconfig_mapping("x86"));
  ir::Model model = matched(testing::conv_bn_relu(), context);
  for (ir::NodeRecord& record : model.records) {
    record.lookup.qconfig.reset();
    record.placement = ir::Placement::Float;
    record.reason = ir::Reason::Island;
    record.decision.reason = "it is alone";
  }
  passes::observe(model, context);
  const ir::NodeRecord record = reported(model).front();
  EXPECT_EQ(record.decision.reason, "it is alone");
  EXPECT_EQ(record.decision.remedy, "nothing, or use --recipe fx");
  EXPECT_EQ(record.reason, ir::Reason::Island);
}

TEST(Observe, EveryNodeHasARecordAndNoneKnowsItsMatchAnyMore) {
  const ir::Model model = observed(testing::conv_bn_relu());
  EXPECT_TRUE(model.matches.empty());
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() == c10::prim::Constant || ir::is_observer(node)) continue;
    const ir::NodeRecord* record = ir::record_of(model, node);
    ASSERT_NE(record, nullptr);
    EXPECT_FALSE(record->match.has_value());
    EXPECT_EQ(record->is_root, ir::is_module_call(node));
  }
}

TEST(Observe, OperatorsOfOnePatternKnowEachOther) {
  const auto records = reported(observed(two_convolutions("torch.relu(self.a.forward(x) + x)")));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_TRUE(records[0].partners.empty());
  EXPECT_EQ(records[1].partners, std::vector<std::string>{records[2].decision.node});
  EXPECT_EQ(records[2].partners, std::vector<std::string>{records[1].decision.node});
}

TEST(LeaveConditions, ComparisonsAreNotObserved) {
  const passes::PassContext context = context_of(default_qconfig_mapping("x86"));
  ir::Model model = testing::normalised(two_convolutions("(x > 0) * self.a.forward(x)"));
  EXPECT_FALSE(passes::leave_conditions(model, context));
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::aten::gt) continue;
    model.observers.emplace_back();
    ir::Node* observer = ir::insert_observer(model, node->output(), 0);
    node->output()->replaceAllUsesAfterNodeWith(observer, observer->output());
  }
  EXPECT_TRUE(passes::leave_conditions(model, context));
  EXPECT_TRUE(observers_of(model).empty());
}

TEST(MakeObservers, EachEntryGetsItsOwn) {
  const passes::PassContext context = context_of(default_qconfig_mapping("x86"));
  ir::Model model = matched(testing::conv_bn_relu(), context);
  EXPECT_FALSE(passes::make_observers(model, context));
  passes::observe(model, context);
  EXPECT_TRUE(passes::make_observers(model, context));
  ASSERT_EQ(model.observers.size(), 2U);
  EXPECT_NE(model.observers[0].module.value()._ivalue(), model.observers[1].module.value()._ivalue());
}

}  // namespace observe_test
}  // namespace tsq
