#include <gtest/gtest.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>

#include "backends/symbols.h"
#include "config/expect_error.h"

namespace tsq {
namespace qconfig_mapping_test {

using nlohmann::json;

QConfig marked(int64_t bins) {
  return {{.observer = "HistogramObserver", .bins = bins}, {.observer = "MinMaxObserver"}};
}
const QConfig kA = marked(1), kB = marked(2), kC = marked(3);

QConfigQuery module_at(std::string path, Symbol type, int index = 0) {
  const auto dot = path.rfind('.');
  std::string parent = dot == std::string::npos ? "" : path.substr(0, dot);
  return {.targets = {type},
          .is_module = true,
          .module_path = std::move(path),
          .parent_path = std::move(parent),
          .order_index = index};
}

QConfigQuery function_in(std::string path, Symbol type, Symbol target, int index = 0) {
  return {.targets = {target},
          .module_path = path,
          .module_type = type,
          .parent_path = path,
          .order_index = index};
}

QConfigDecision decide(const QConfigMapping& mapping, const QConfigQuery& query) {
  return find_qconfig(mapping, query);
}

TEST(Precedence, GlobalCountsWhereNothingElseDoes) {  // B-04, B-09
  const auto decision = decide(QConfigMapping().set_global(kA), module_at("conv", nn::Conv2d));
  EXPECT_EQ(decision.qconfig, kA);
  EXPECT_EQ(decision.source, QConfigSource::Global);
}

TEST(Precedence, NoGlobalMeansNotQuantized) {  // B-04
  const auto decision = decide(QConfigMapping(), module_at("conv", nn::Conv2d));
  EXPECT_FALSE(decision.qconfig.has_value());
  EXPECT_EQ(decision.source, QConfigSource::None);
}

TEST(Precedence, EachLevelBeatsTheOneBelow) {  // B-09
  QConfigMapping mapping;
  const QConfigQuery query = module_at("sub.conv", nn::Conv2d, 1);
  mapping.set_global(marked(1));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(1));
  mapping.set_object_type(nn::Conv2d, marked(2));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(2));
  mapping.set_module_name_regex("sub", marked(3));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(3));
  mapping.set_module_name("sub.conv", marked(4));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(4));
  mapping.set_module_name_object_type_order("sub", nn::Conv2d, 1, marked(5));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(5));
}

TEST(Precedence, AnExplicitNoneBeatsTheLevelsBelow) {
  const auto mapping = QConfigMapping().set_global(kA).set_object_type(nn::Conv2d, std::nullopt);
  const auto decision = decide(mapping, module_at("conv", nn::Conv2d));
  EXPECT_FALSE(decision.qconfig.has_value());
  EXPECT_EQ(decision.source, QConfigSource::ObjectType);
  EXPECT_EQ(decision.key, "torch.nn.Conv2d");
}

TEST(Regex, IsAnchoredAtTheStartAndNotAtTheEnd) {  // B-06
  const auto mapping = QConfigMapping().set_module_name_regex("s", kA);
  EXPECT_EQ(decide(mapping, module_at("sub.l", nn::Linear)).qconfig, kA);
  EXPECT_FALSE(decide(mapping, module_at("a.s", nn::Linear)).qconfig.has_value());
}

TEST(Regex, TheFirstRegisteredMatchWinsAndResettingKeepsItsPlace) {  // B-06
  QConfigMapping mapping;
  mapping.set_module_name_regex("foo.*bar.*conv[0-9]+", kA).set_module_name_regex("foo.*", kB);
  EXPECT_EQ(decide(mapping, module_at("foo.bar.conv0", nn::Conv2d)).qconfig, kA);
  EXPECT_EQ(decide(mapping, module_at("foo.baz.relu", nn::ReLU)).qconfig, kB);
  mapping.set_module_name_regex("foo.*bar.*conv[0-9]+", kC);
  EXPECT_EQ(decide(mapping, module_at("foo.bar.conv0", nn::Conv2d)).qconfig, kC);
}

TEST(Regex, UnderstandsPythonsAnchorsAndNamedGroups) {
  const auto matches = [](const char* regex, const char* path) {
    return decide(QConfigMapping().set_module_name_regex(regex, kA), module_at(path, nn::Linear))
        .qconfig.has_value();
  };
  EXPECT_TRUE(matches(R"(\Alayer\d+\.conv\Z)", "layer12.conv"));
  EXPECT_FALSE(matches(R"(\Alayer\d+\.conv\Z)", "layer12.conv1"));
  EXPECT_TRUE(matches(R"((?P<stage>layer[34])\.)", "layer3.0"));
  EXPECT_TRUE(matches(R"((?!head).*)", "body"));
  EXPECT_FALSE(matches(R"((?!head).*)", "head.fc"));
}

TEST(Regex, OfNoSenseIsRefused) {  // B-06
  EXPECT_THROW(QConfigMapping().set_module_name_regex("(", kA), Error);
  EXPECT_THROW(QConfigMapping().set_module_name_regex("(?<n>a)", kA), Error);
}

TEST(ModuleName, CountsForTheModuleOrItsNearestConfiguredAncestor) {  // B-07
  QConfigMapping mapping;
  mapping.set_module_name("a", kA).set_module_name("a.b", kB);
  EXPECT_EQ(decide(mapping, module_at("a.b.c", nn::Linear)).qconfig, kB);
  EXPECT_EQ(decide(mapping, module_at("a.x.c", nn::Linear)).qconfig, kA);
  EXPECT_FALSE(decide(mapping, module_at("ab", nn::Linear)).qconfig.has_value());
  EXPECT_EQ(decide(mapping, module_at("a.b.c", nn::Linear)).key, "a.b");
}

TEST(ModuleName, NoneAtANearerLevelBeatsAFartherQConfig) {  // B-07
  const auto mapping = QConfigMapping().set_module_name("a", kA).set_module_name("a.b", std::nullopt);
  EXPECT_FALSE(decide(mapping, module_at("a.b.c", nn::Linear)).qconfig.has_value());
}

TEST(Order, WantsTheExactModuleTypeAndIndex) {  // B-08
  const auto mapping = QConfigMapping().set_module_name_object_type_order("foo.bar", F::linear, 1, kA);
  EXPECT_EQ(decide(mapping, function_in("foo.bar", module("my.Block"), F::linear, 1)).qconfig, kA);
  EXPECT_FALSE(decide(mapping, function_in("foo.bar", module("my.Block"), F::linear, 0)).qconfig.has_value());
  EXPECT_FALSE(decide(mapping, function_in("foo", module("my.Block"), F::linear, 1)).qconfig.has_value());
  EXPECT_FALSE(decide(mapping, function_in("foo.bar", module("my.Block"), F::conv2d, 1)).qconfig.has_value());
}

TEST(Order, OfACalledModuleIsCountedInItsParent) {  // B-08
  const auto mapping = QConfigMapping().set_module_name_object_type_order("foo", nn::Linear, 0, kA);
  EXPECT_EQ(decide(mapping, module_at("foo.fc", nn::Linear, 0)).qconfig, kA);
}

TEST(Order, DoesNotCountForMethods) {  // B-08
  const auto mapping = QConfigMapping().set_module_name_object_type_order("foo", method("view"), 0, kA);
  const QConfigQuery query{
      .targets = {method("view")}, .module_path = "foo", .parent_path = "foo", .order_index = -1};
  EXPECT_FALSE(decide(mapping, query).qconfig.has_value());
}

TEST(Functions, TakeTheContainingClassBeforeTheirOwnType) {  // B-10
  const Symbol block = module("my.Block");
  const auto mapping = QConfigMapping().set_object_type(F::linear, kA).set_object_type(block, kB);
  EXPECT_EQ(decide(mapping, function_in("sub", block, F::linear)).qconfig, kB);
  EXPECT_EQ(decide(mapping, function_in("sub", module("my.Other"), F::linear)).qconfig, kA);
}

TEST(Functions, InTheRootMatchARegexOfTheEmptyNameAndNoModuleName) {  // B-10
  const auto mapping = QConfigMapping().set_module_name_regex(".*", kA).set_module_name("", kB);
  EXPECT_EQ(decide(mapping, function_in("", module("my.Net"), F::linear)).qconfig, kA);
}

TEST(Functions, InTheRootDoNotTakeTheClassOfTheModel) {  // B-10, as FX does
  const auto mapping = QConfigMapping().set_object_type(module("my.Net"), kA);
  EXPECT_FALSE(decide(mapping, function_in("", module("my.Net"), F::linear)).qconfig.has_value());
}

TEST(Methods, TakeTheContainingClassBeforeTheirName) {  // B-11
  const Symbol block = module("my.Block");
  const auto mapping = QConfigMapping().set_object_type("reshape", kA).set_object_type(block, kB);
  EXPECT_EQ(decide(mapping, function_in("sub", block, method("reshape"), -1)).qconfig, kB);
  EXPECT_EQ(decide(mapping, function_in("sub", module("my.Other"), method("reshape"), -1)).qconfig, kA);
}

TEST(Modules, DoNotTakeTheClassThatContainsThem) {  // B-12
  QConfigQuery query = module_at("sub.fc", nn::Linear);
  query.module_type = module("my.Block");
  EXPECT_FALSE(decide(QConfigMapping().set_object_type(module("my.Block"), kA), query).qconfig.has_value());
}

TEST(Modules, TakeWhatOpenedModulesAroundThemHaveTheNearestFirst) {
  const Symbol attention = symbol("torch.nn.MultiheadAttention");
  const Symbol encoder = symbol("torch.nn.TransformerEncoderLayer");
  QConfigQuery query = module_at("enc.attn.linear_0", nn::Linear);
  query.opened = {{"enc", encoder}, {"enc.attn", attention}};
  QConfigMapping mapping;
  mapping.set_object_type(nn::Linear, marked(1));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(1));
  mapping.set_object_type(encoder, marked(2));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(2));
  mapping.set_object_type(attention, std::nullopt);
  EXPECT_EQ(decide(mapping, query).qconfig, std::nullopt);
  mapping.set_module_name_regex("enc\\.attn$", marked(3));
  EXPECT_EQ(decide(mapping, query).qconfig, marked(3));
}

TEST(Spellings, TheFirstConfiguredSpellingOfAnOperatorCounts) {
  const QConfigQuery query{.targets = {F::relu, fn::relu, method("relu")}, .order_index = -1};
  EXPECT_EQ(decide(QConfigMapping().set_object_type("relu", kA).set_object_type(F::relu, kB), query).qconfig,
            kB);
  EXPECT_EQ(decide(QConfigMapping().set_object_type("relu", kA), query).qconfig, kA);
}

TEST(QConfigMapping, ResettingATypeKeepsItsPlace) {  // B-05
  QConfigMapping mapping;
  mapping.set_object_type(nn::Linear, kA).set_object_type(nn::ReLU, kA).set_object_type(nn::Linear, kB);
  ASSERT_EQ(mapping.object_type_qconfigs().size(), 2u);
  EXPECT_EQ(mapping.object_type_qconfigs()[0], (std::pair{nn::Linear, MaybeQConfig(kB)}));
}

TEST(QConfigMapping, RoundTripsEveryLevelThroughJson) {  // B-20
  QConfigMapping mapping;
  mapping.set_global(kA)
      .set_object_type(nn::Linear, std::nullopt)
      .set_object_type("reshape", kB)
      .set_module_name_regex("foo.*", kA)
      .set_module_name("a.b", std::nullopt)
      .set_module_name_object_type_order("a", F::linear, 2, kC);
  const json dict = json::parse(mapping.to_dict().dump());
  EXPECT_EQ(QConfigMapping::from_dict(dict), mapping);
  EXPECT_EQ(dict.at("object_type")[0], json::array({"torch.nn.Linear", nullptr}));
  EXPECT_EQ(dict.at("module_name_object_type_order")[0][2], 2);
}

TEST(QConfigMapping, AllKeysAreOptionalInJsonAndAllAreWritten) {  // B-20
  EXPECT_EQ(QConfigMapping::from_dict(json::object()), QConfigMapping());
  EXPECT_EQ(QConfigMapping().to_dict().size(), 5u);
}

TEST(QConfigMapping, DefaultsSpareTransposedConvolutionsPerChannelWeights) {  // B-23
  const auto weight_of = [](std::string_view backend) {
    return resolve(
               decide(default_qconfig_mapping(backend), module_at("up", nn::ConvTranspose2d)).qconfig->weight)
        .qscheme;
  };
  EXPECT_EQ(weight_of("fbgemm"), c10::kPerTensorSymmetric);
  EXPECT_EQ(weight_of("x86"), c10::kPerTensorSymmetric);
  EXPECT_EQ(weight_of("onednn"), c10::kPerChannelSymmetric);
}

TEST(QConfigMapping, DefaultForPReLUHasTheWholeRangeEvenOnFbgemm) {  // B-23
  const auto qconfig = decide(default_qconfig_mapping("fbgemm"), module_at("act", nn::PReLU)).qconfig;
  EXPECT_EQ(resolve(qconfig->activation).quant_max, 255);
}

TEST(QConfigMapping, SymmetricQnnpackSparesOnlyTheFixedRangeOperators) {  // B-24
  const QConfigMapping mapping = symmetric_qnnpack_qconfig_mapping();
  EXPECT_EQ(mapping.global_qconfig(), qconfig("default_symmetric_qnnpack_qconfig"));
  EXPECT_EQ(decide(mapping, module_at("n", nn::LayerNorm)).qconfig, mapping.global_qconfig());
  EXPECT_EQ(decide(mapping, module_at("s", nn::Sigmoid)).qconfig->activation.observer,
            "FixedQParamsObserver");
}

TEST(QConfigMapping, BackendIsCheckedByTheDefaultQConfig) {
  EXPECT_THROW(default_qconfig_mapping("arm"), Error);
}  // B-25

TEST(QConfigMapping, DynamicIsTheDefaultDynamicQConfigForAll) {
  EXPECT_EQ(dynamic_qconfig_mapping(), QConfigMapping().set_global(qconfig("default_dynamic_qconfig")));
}

json with_level(const char* key, json entries) { return {{key, std::move(entries)}}; }

TEST(QConfigMappingErrors, NameThePathAndTheNearestKey) {
  expect_error("a QConfigMapping has no key 'object_types'; did you mean 'object_type'?", [] {
    QConfigMapping::from_dict({{"object_types", json::array()}});
  });
  const json misspelt = json::parse(
      R"({"activation": {"observer": "HistogramObservr"}, "weight": {"observer": "MinMaxObserver"}})");
  expect_error(
      "at 'object_type[0][1].activation': 'HistogramObservr' is not an observer; did you mean "
      "'HistogramObserver'?",
      [&] {
        QConfigMapping::from_dict(
            with_level("object_type", json::array({json::array({"torch.nn.Linear", misspelt})})));
      });
  expect_error("at 'object_type[0][0]': PyTorch has no 'torch.nn.Linaer'; did you mean 'torch.nn.Linear'?",
               [] {
                 QConfigMapping::from_dict(
                     with_level("object_type", json::array({json::array({"torch.nn.Linaer", nullptr})})));
               });
  expect_error(
      "at 'object_type[0][0]': got 'Linear' without its module; did you mean 'torch.nn.Linear'?", [] {
        QConfigMapping::from_dict(with_level("object_type", json::array({json::array({"Linear", nullptr})})));
      });
  expect_error("at '\"\"': got number 3, wanted an object: a QConfig", [] {
    QConfigMapping::from_dict({{"", 3}});
  });
}

TEST(QConfigMappingErrors, RefuseEntriesOfTheWrongForm) {
  expect_error("at 'module_name[0]': got a list of 1, wanted [module name, QConfig]", [] {
    QConfigMapping::from_dict(with_level("module_name", json::array({json::array({"a"})})));
  });
  expect_error("at 'module_name': got object {}, wanted a list of [module name, QConfig]",
               [] { QConfigMapping::from_dict(with_level("module_name", json::object())); });
  expect_error("at 'module_name_object_type_order[0][2]': got the index -1, wanted 0 or more", [] {
    QConfigMapping::from_dict(with_level("module_name_object_type_order",
                                         json::array({json::array({"a", "torch.nn.Linear", -1, nullptr})})));
  });
  EXPECT_THROW(
      QConfigMapping::from_dict(with_level("module_name_regex", json::array({json::array({"(", nullptr})}))),
      Error);
}

TEST(QConfigMapping, ReadsManyEntriesOfWhichTheLastOfEqualKeysCounts) {
  constexpr std::size_t kNames = 50'000;
  json names = json::array();
  for (std::size_t i = 0; i < kNames; ++i)
    names.push_back(json::array({"layers." + std::to_string(i), nullptr}));
  names.push_back(json::array({"layers.7", marked(3).to_dict()}));
  std::vector<std::string> notes;
  const QConfigMapping mapping = QConfigMapping::from_dict(with_level("module_name", names), notes);
  ASSERT_EQ(mapping.module_name_qconfigs().size(), kNames);
  EXPECT_EQ(mapping.module_name_qconfigs()[7], (std::pair<std::string, MaybeQConfig>("layers.7", marked(3))));
  EXPECT_EQ(notes, std::vector<std::string>{
                       "'module_name[50000]' takes the place of an earlier entry of 'layers.7'"});
}

TEST(QConfigMapping, ARegexIsNotLongerThanAnybodyWrites) {
  std::string longest;
  for (int i = 0; i < 2'500; ++i) longest += "a|b|";
  EXPECT_NO_THROW(QConfigMapping().set_module_name_regex(longest, kA));
  expect_error_with("has 10001 characters, and no more than 10000 are taken",
                    [&] { QConfigMapping().set_module_name_regex(longest + "c", kA); });
}

TEST(QConfigMapping, ARegexThatTakesTooLongIsAnError) {
  const std::string name(60, 'x');
  std::string groups;
  for (int i = 0; i < 4'000; ++i) groups += "()";
  for (const std::string& regex : {std::string("(x+x+)+[!#]"), groups + "(x+x+)+[!#]"}) {
    const auto mapping = QConfigMapping().set_module_name_regex(regex, kA);
    expect_error_with("takes too long on '" + name + "'",
                      [&] { (void)decide(mapping, module_at(name, nn::Linear)); });
  }
}

}  // namespace qconfig_mapping_test
}  // namespace tsq
