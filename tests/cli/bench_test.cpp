// The command `bench`. What it measures decides nothing here: only what it says, and which exit code follows
// from given numbers.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace bench_test {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class Bench : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    ASSERT_EQ(tsq(quantize_arguments()).exit_code, 0);
  }
  /// `tsq bench model.pt out.pt`, as short as it can be, with further arguments.
  [[nodiscard]] std::vector<std::string> arguments(const std::vector<std::string>& more,
                                                   const std::string& launches = "1") const {
    std::vector<std::string> words = profile_arguments({"--warmup", "1", "--launches", launches});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] std::vector<std::string> profile_arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"bench",  path("model.pt"), path("out.pt"),
                                   "--data", path("data.pt"),  "--rounds",
                                   "2",      "--threads",      "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Bench, MeasuresTheFloatFileAsFastAsItGetsAndAsItIsAndEachOther) {
  const json result = answer(arguments({}));
  ASSERT_EQ(result["models"].size(), 3U);
  for (const json& model : result["models"]) {
    EXPECT_GT(model["latency_seconds"]["min"], 0.0);
    EXPECT_GE(model["latency_seconds"]["p99"], model["latency_seconds"]["median"]);
    EXPECT_GT(model["peak_memory_bytes"], 0);
    EXPECT_EQ(model["rows"], 2.0);
    EXPECT_EQ(model["rounds"][0].size(), 2U);
  }
  EXPECT_EQ(result["models"][0]["form"], "optimized");
  EXPECT_EQ(result["models"][0]["ratio"]["value"], 1.0);
  EXPECT_EQ(result["models"][1]["form"], "as_saved");
  EXPECT_EQ(result["models"][2]["engine"], "x86");
  EXPECT_GT(result["machine"]["processors"], 0);
}

TEST_F(Bench, BatchesConcurrencyAndSettingsMakeEntries) {
  const json result = answer({"bench", path("out.pt") + "@threads=1,memory=system,channels_last", "--data",
                              path("data.pt"), "--rounds", "1", "--warmup", "0", "--launches", "1", "--batch",
                              "1,3", "--concurrency", "1,2", "--together"});
  ASSERT_EQ(result["models"].size(), 4U);
  EXPECT_EQ(result["models"][0]["rows"], 1.0);
  EXPECT_EQ(result["models"][3]["rows"], 3.0);
  EXPECT_EQ(result["models"][3]["concurrency"], 2);
  EXPECT_EQ(result["models"][3]["memory"], "system");
}

TEST_F(Bench, TheTableAndTheCsvHaveALineForEachEntry) {
  const Outcome table = tsq(arguments({}));
  EXPECT_EQ(table.exit_code, 0);
  for (const std::string word : {"median", "p99", "peak memory", "model.pt optimized", "out.pt", "1 launch",
                                 "processors", "- (too few launches for an interval)"})
    EXPECT_THAT(table.out, HasSubstr(word));
  const Outcome csv = tsq(arguments({"--csv"}));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 4);
}

/// A result with all its times made so many times as long.
json slowed(json result, std::size_t model, double factor) {
  for (json& launch : result["models"][model]["rounds"]) {
    for (json& seconds : launch) seconds = seconds.get<double>() * factor;
  }
  return result;
}

TEST_F(Bench, CompareEndsWithOneWhereAModelBecameSlower) {
  const json now = answer(arguments({"--output", path("now.json")}, "3"));
  EXPECT_EQ(json::parse(read_file(path("now.json")))["models"].size(), 3U);
  // An old run in which the int8 model took a thousandth of the time, and one in which it took a thousand
  // times as long.
  write_file(path("fast.json"), slowed(now, 2, 0.001).dump());
  write_file(path("slow.json"), slowed(now, 2, 1000).dump());
  const Outcome regression = tsq(arguments({"--compare", path("fast.json")}, "3"));
  EXPECT_EQ(regression.exit_code, 1);
  EXPECT_THAT(regression.out, HasSubstr("REGRESSION"));
  EXPECT_EQ(regression.err, "");
  const Outcome progress = tsq(arguments({"--compare", path("slow.json"), "--tolerance", "10"}, "3"));
  EXPECT_EQ(progress.exit_code, 0) << progress.out;
}

TEST_F(Bench, TheResultSaysWhatItWasMadeOf) {
  const json result = answer(arguments({}));
  for (const char* key : {"tsq", "torch", "date", "command"})
    EXPECT_FALSE(result[key].get<std::string>().empty());
  EXPECT_THAT(result["command"].get<std::string>(), HasSubstr("--rounds 2"));
  EXPECT_EQ(result["threads"], 1);
  EXPECT_EQ(result["models"][0]["sha1"].get<std::string>().size(), 40U);
  EXPECT_EQ(result["models"][0]["sha1"], result["models"][1]["sha1"]);
  EXPECT_NE(result["models"][0]["sha1"], result["models"][2]["sha1"]);
  EXPECT_FALSE(result["machine"]["governor"].get<std::string>().empty());
  EXPECT_TRUE(result["models"][2]["ratio"]["interval"].is_null()) << "of one launch";
}

TEST_F(Bench, OptionsWithoutEffectAreRefused) {
  for (const std::vector<std::string>& words :
       {arguments({"--tolerance", "0.1"}), arguments({"--csv", "--json"}), arguments({"--profile"}),
        profile_arguments({"--profile", "--concurrency", "2"})})
    EXPECT_EQ(tsq(words).exit_code, 2) << words.back();
  EXPECT_EQ(tsq({"bench", path("out.pt") + "@x86,fbgemm", "--data", path("data.pt")}).exit_code, 1);
}

TEST_F(Bench, AnOutputThatCannotBeWrittenIsFoundBeforeMeasuring) {
  const Outcome outcome = tsq(arguments({"--output", path("no/such/folder.json")}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("bench:")));
}

TEST_F(Bench, CompareRefusesWhatIsNoResult) {
  write_file(path("other.json"), R"({"models": 5})");
  const Outcome outcome = tsq(arguments({"--compare", path("other.json")}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no result of 'tsq bench'"));
}

TEST_F(Bench, AnUnknownSettingIsBadInputThatNamesTheKnownOnes) {
  const Outcome outcome = tsq({"bench", path("model.pt") + "@fast", "--data", path("data.pt")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("'fast'"));
  EXPECT_THAT(outcome.err, HasSubstr("channels_last"));
}

TEST_F(Bench, TheProfileNamesKernelsLayersAndConversions) {
  const json result = answer(profile_arguments({"--profile", "--trace", path("trace.json")}));
  ASSERT_EQ(result["models"].size(), 2U) << "the float model once";
  std::map<std::string, json> kinds;
  for (const json& row : result["kinds"]) kinds[row["name"]] = row;
  EXPECT_EQ(kinds["aten::conv2d"]["counts"], json({1, 0}));
  EXPECT_EQ(kinds["quantized::conv2d_relu"]["counts"], json({0, 1}));
  EXPECT_EQ(kinds["aten::quantize_per_tensor"]["counts"], json({0, 1}));
  std::vector<std::string> layers;
  for (const json& row : result["layers"]) layers.push_back(row["name"]);
  EXPECT_EQ(layers, (std::vector<std::string>{"conv", "(conversions)", "(between operators)"}));
  EXPECT_FALSE(json::parse(read_file(path("trace.json")))["traceEvents"].empty());
  const std::string text = tsq(profile_arguments({"--profile"})).out;
  EXPECT_THAT(text, HasSubstr("(2) - (1)"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("slower")))
      << "a kernel that replaces another is not slower than nothing";
}

TEST_F(Bench, AnOperatorPlantedAroundAModelShowsInTheProfile) {
  torch::jit::Module planted = user_module("Planted");
  planted.register_module("model", torch::jit::load(path("out.pt")));
  planted.define("def forward(self, x):\n  return self.model.forward(torch.sort(x)[0])\n");
  planted.save(path("planted.pt"));
  const json result = answer({"bench", path("out.pt"), path("planted.pt"), "--data", path("data.pt"),
                              "--rounds", "2", "--threads", "1", "--profile"});
  ASSERT_EQ(result["models"].size(), 2U);
  EXPECT_THAT(result["models"][1], EndsWith("planted.pt, threads 1")) << "an int8 model has one form";
  std::map<std::string, json> counts;
  for (const char* table : {"kinds", "layers"}) {
    for (const json& row : result[table]) counts[row["name"]] = row["counts"];
  }
  EXPECT_EQ(counts["aten::sort"], json({0, 1}));
  EXPECT_EQ(counts["conv"], json({1, 1}));
}

TEST_F(Bench, RunWritesTheResultsOfAllSamples) {
  const json result =
      answer({"run", path("out.pt"), "--data", path("data.pt"), "--output", path("results.pt")});
  EXPECT_EQ(result["samples"], 4);
  EXPECT_EQ(result["engine"], "x86");
  EXPECT_EQ(result["outputs"][0]["dtype"], "Float");
  const std::string bytes = read_file(path("results.pt"));
  const at::IValue results = torch::jit::pickle_load({bytes.begin(), bytes.end()});
  const std::string data = read_file(path("data.pt"));
  const at::IValue samples = torch::jit::pickle_load({data.begin(), data.end()});
  torch::jit::Module model = torch::jit::load(path("out.pt"));
  EXPECT_EQ(bytes.find("restore_type_tag"), std::string::npos) << "torch.load refuses such files";
  ASSERT_EQ(results.toTupleRef().elements().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const at::Tensor wanted = model.forward({samples.toTensorVector()[i]}).toTensor();
    EXPECT_TRUE(results.toTupleRef().elements()[i].toTensor().equal(wanted));
  }
}

TEST_F(Bench, VerifyRefusesTheInt8ModelInPlaceOfTheFloatOne) {
  const Outcome outcome = tsq({"verify", path("out.pt"), path("model.pt"), "--data", path("data.pt")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("out.pt' is the quantized model; give the float model first"));
}

TEST_F(Bench, VerifyNamesTheLayerAndItsKernel) {
  const json result = answer({"verify", path("model.pt"), path("out.pt"), "--data", path("data.pt")});
  ASSERT_EQ(result["layers"].size(), 1U);
  EXPECT_EQ(result["layers"][0]["layer"], "conv");
  EXPECT_EQ(result["layers"][0]["kernel"], "quantized::conv2d_relu");
  EXPECT_EQ(result["layers"][0]["float_operator"], "aten::relu");
  EXPECT_GT(result["layers"][0]["alone_sqnr_db"], 20);
  EXPECT_THAT(tsq({"verify", path("model.pt"), path("out.pt"), "--data", path("data.pt")}).out,
              HasSubstr("lowest alone, where errors are born: conv"));
}

TEST_F(Bench, VerifyShowsModelsAndQConfigsSideBySide) {
  write_file(path("one.json"), tsq({"qconfig", "show", "x86"}).out);
  const Outcome outcome = tsq({"verify", path("model.pt"), path("out.pt"), "--data", path("data.pt"),
                               "--qconfig", path("one.json"), "--recipe", "fx"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("one.json"));
  EXPECT_THAT(outcome.out, HasSubstr("alone / with the errors of all layers before"));
  const json result = answer({"verify", path("model.pt"), path("out.pt"), "--data", path("data.pt"),
                              "--qconfig", path("one.json"), "--recipe", "fx"});
  ASSERT_EQ(result["models"].size(), 2U);
  EXPECT_EQ(result["models"][1]["layers"][0]["layer"], "conv");
}

/// In the second model the ReLU is no part of a kernel of int8.
TEST_F(Bench, VerifyShowsARowThatOnlyALaterModelHasWhereItRuns) {
  torch::jit::Module model = user_module("Two");
  model.register_module("first", conv2d(3, 4, 3));
  model.register_module("act", relu());
  model.register_module("last", conv2d(4, 4, 3));
  model.define(
      "def forward(self, x):\n  return self.last.forward(self.act.forward(self.first.forward(x)))\n");
  model.eval();
  model.save(path("two.pt"));
  QConfigMapping mapping = default_qconfig_mapping("x86");
  write_file(path("all.json"), mapping.to_dict().dump());
  write_file(path("some.json"), mapping.set_module_name("first", {}).to_dict().dump());
  const Outcome outcome = tsq({"verify", path("two.pt"), "--data", path("data.pt"), "--qconfig",
                               path("all.json") + ',' + path("some.json"), "--recipe", "fx"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::size_t act = outcome.out.find("\nact ");
  const std::size_t last = outcome.out.find("\nlast ");
  ASSERT_NE(act, std::string::npos) << outcome.out;
  ASSERT_NE(last, std::string::npos) << outcome.out;
  EXPECT_LT(outcome.out.find("\nfirst "), act) << outcome.out;
  EXPECT_LT(act, last) << outcome.out;
}

TEST_F(Bench, VerifyWritesTheAdvisedMappingThatQuantizeTakes) {
  const json result =
      answer({"verify", path("model.pt"), "--data", path("data.pt"), "--detect", "--advice-qconfig",
              path("advised.json"), "--advice-equalization", path("equalize.json")});
  ASSERT_TRUE(result["findings"].is_array());
  const Outcome outcome =
      tsq({"quantize", path("model.pt"), "--calib", path("data.pt"), "-o", path("advised.pt"), "--qconfig",
           path("advised.json"), "--equalization", path("equalize.json"), "--no-check", "--recipe", "fx"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(Bench, VerifyWithoutAnythingToCompareSaysWhatToGive) {
  const Outcome outcome = tsq({"verify", path("model.pt"), "--data", path("data.pt")});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("give INT8.pt, --qconfig or --detect"));
}

}  // namespace bench_test
}  // namespace tsq::testing
