// Files of fused programs in the hands of every command and of Runner: the library is loaded by itself.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/runner.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/machine_profiles.h"

namespace tsq::testing {
namespace commands_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class FusedFile : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    std::ofstream(path("machine.json")) << testing::slow_in_float()->to_dict().dump();
    const Outcome outcome = tsq({"quantize", path("model.pt"), "--calib", path("data.pt"), "--target",
                                 "fused", "--machine", path("machine.json"), "--decibel-price", "0",
                                 "--output", path("fused.pt"), "--reference", path("reference.pt")});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  [[nodiscard]] Words with_data(Words words) const {
    words.insert(words.end(), {"--data", path("data.pt")});
    return words;
  }
  /// The commands that load the file.
  [[nodiscard]] std::vector<Words> commands() const {
    const std::string exact = path("model.pt");
    const std::string fused = path("fused.pt");
    return {{"inspect", fused},
            with_data({"run", fused}),
            with_data({"compare", exact, fused}),
            with_data({"verify", exact, fused}),
            with_data({"bench", exact, fused, "--rounds", "1", "--launches", "1", "--warmup", "0"}),
            with_data({"bench", fused, "--profile", "--rounds", "1"}),
            with_data({"report", exact, fused, "--no-times", "--output", path("report.html")})};
  }
  [[nodiscard]] json json_of(Words words) const {
    words.emplace_back("--json");
    const Outcome outcome = tsq(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

TEST_F(FusedFile, EveryCommandTakesIt) {
  for (const Words& words : commands()) {
    const Outcome outcome = tsq(words);
    EXPECT_EQ(outcome.exit_code, 0) << words.front() << ": " << outcome.err;
  }
}

TEST_F(FusedFile, WithoutTheLibraryACommandEndsWithASentence) {
  const std::string elsewhere = path("tsq");
  copy_program(elsewhere);
  for (const Words& words : commands()) {
    const Outcome outcome = Program(words, 0, elsewhere).wait();
    EXPECT_EQ(outcome.exit_code, 1) << words.front();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("tsq: error: fused programs need libtsq_runtime.so: "),
                                   HasSubstr("--library")))
        << words.front();
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  const Outcome lowered =
      Program({"lower", path("reference.pt"), "--output", path("again.pt")}, 0, elsewhere).wait();
  EXPECT_EQ(lowered.exit_code, 1);
  EXPECT_THAT(lowered.err, HasSubstr("libtsq_runtime.so"));
  // Before any work: the model is not even loaded.
  for (const Words& words : {Words{"quantize", path("model.pt"), "--calib", path("data.pt"), "--target",
                                   "fused", "--output", path("never.pt")},
                             Words{"explain", path("model.pt"), "--target", "fused"}}) {
    const Outcome outcome = Program(words, 0, elsewhere).wait();
    EXPECT_EQ(outcome.exit_code, 1) << words.front();
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("fused programs need libtsq_runtime.so: "), Not(HasSubstr("prepare"))))
        << words.front();
  }
  for (Words words : commands()) {
    words.insert(words.end(), {"--library", TSQ_RUNTIME_LIBRARY});
    const Outcome outcome = Program(words, 0, elsewhere).wait();
    EXPECT_EQ(outcome.exit_code, 0) << words.front() << ": " << outcome.err;
  }
}

TEST_F(FusedFile, TheFileNamesTheLibrary) {
  EXPECT_EQ(read_metadata(path("fused.pt"))["libraries"], json::array({"libtsq_runtime.so"}));
  ASSERT_EQ(tsq(quantize_arguments()).exit_code, 0);
  EXPECT_FALSE(read_metadata(path("out.pt")).contains("libraries")) << "made for the stock target";
}

TEST_F(FusedFile, AFileThatAnotherToolHasSavedAgainHasLostItsRecordAndLoadsAllTheSame) {
  load(path("fused.pt")).save(path("again.pt"));
  ASSERT_TRUE(read_metadata(path("again.pt")).is_null());
  EXPECT_TRUE(holds_fused_programs(path("again.pt")));
  EXPECT_FALSE(holds_fused_programs(path("model.pt")));
  for (const Words& words :
       {Words{"inspect", path("again.pt")}, with_data({"run", path("again.pt")}),
        with_data({"bench", path("again.pt") + "@as_saved", "--rounds", "1", "--launches", "1"})}) {
    const Outcome outcome = tsq(words);
    EXPECT_EQ(outcome.exit_code, 0) << words.front() << ": " << outcome.err;
  }
}

TEST_F(FusedFile, RunnerLoadsTheLibrary) {
  Runner runner(path("fused.pt"));
  EXPECT_TRUE(has_runtime_library());
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  EXPECT_TRUE(runner({x}).toTensor().equal(load(path("fused.pt")).forward({x}).toTensor()));
}

bool has_exact_int8_sums() {
  torch::jit::Stack stack;
  EXPECT_EQ(load_runtime_library(), "");
  c10::Dispatcher::singleton().findSchemaOrThrow("tsq::has_exact_int8_sums", "").callBoxed(&stack);
  return stack.at(0).toBool();
}

TEST_F(FusedFile, TheRecordAndInspectSayTheTarget) {
  EXPECT_EQ(read_metadata(path("fused.pt"))["target"], "fused");
  EXPECT_THAT(tsq({"inspect", path("fused.pt")}).out, HasSubstr("target   fused"));
  ASSERT_EQ(tsq(quantize_arguments()).exit_code, 0);
  EXPECT_EQ(read_metadata(path("out.pt"))["target"], "stock");
}

TEST_F(FusedFile, AReportHasItsOwnDecisionsAndTheOperationsOfItsPrograms) {
  ASSERT_EQ(tsq(with_data({"report", path("model.pt"), path("fused.pt"), "--output", path("report.html"),
                           "--data-output", path("report.json")}))
                .exit_code,
            0);
  const json model = json::parse(read_file(path("report.json")))["models"][1];
  EXPECT_EQ(model["target"], "fused");
  const auto decision =
      std::ranges::find_if(model["decisions"], [](const json& each) { return each["layer"] == "conv"; });
  ASSERT_NE(decision, model["decisions"].end());
  EXPECT_EQ((*decision)["kernel"], "tsq::run") << "by the plan of the file, whose machine is not this one";
  const auto op = std::ranges::find_if(model["operators"],
                                       [](const json& each) { return each["kind"] == "tsq::convolution"; });
  ASSERT_NE(op, model["operators"].end()) << "what the program computes, not its call";
  EXPECT_EQ((*op)["layer"], "conv");
  EXPECT_GT((*op)["seconds"], 0.0);
  EXPECT_EQ((*op)["sqnr_db"], model["layers"][0]["sqnr_db"]);
  EXPECT_EQ(model["latency"]["ratio"].is_null(), model["latency"]["ratio_low"].is_null())
      << "no factor without an interval";
}

TEST_F(FusedFile, InspectCountsWhatIsInItsPrograms) {
  const json programs = json_of({"inspect", path("fused.pt")})["programs"];
  EXPECT_EQ(programs["count"], 1);
  EXPECT_EQ(programs["operations"]["convolution"], 1);
  // Without VNNI the convolution computes in float where its sums could saturate.
  EXPECT_LE(programs["float_operations"], has_exact_int8_sums() ? 0 : 1);
  EXPECT_THAT(programs["constants"]["bytes"], Gt(3 * 3 * 3));
  const Outcome text = tsq({"inspect", path("fused.pt")});
  EXPECT_THAT(text.out, AllOf(HasSubstr("1 fused program, for which libtsq_runtime.so is loaded"),
                              HasSubstr("1  convolution"), HasSubstr("tsq::run")));
  EXPECT_THAT(tsq({"inspect", path("model.pt")}).out, Not(HasSubstr("programs")));
}

TEST_F(FusedFile, TheProfileLooksIntoPrograms) {
  const json profile =
      json_of(with_data({"bench", path("model.pt"), path("fused.pt"), "--profile", "--rounds", "3"}));
  const json& fused = profile["profiles"][1];
  ASSERT_EQ(fused["operators"][0]["kind"], "tsq::run");
  const json& steps = fused["operators"][0]["steps"];
  const auto convolution =
      std::ranges::find_if(steps, [](const json& step) { return step["kind"] == "tsq::convolution"; });
  ASSERT_NE(convolution, steps.end());
  EXPECT_EQ((*convolution)["layer"], "conv");
  EXPECT_NE((*convolution)["kernel"], "");
  EXPECT_NE((*convolution)["shape"], "");
  for (const char* table : {"kinds", "layers"}) {
    double sum = 0;
    for (const json& row : profile[table]) sum += row["seconds"][1].get<double>();
    EXPECT_NEAR(sum, fused["seconds"].get<double>(), 1e-9) << table;
  }
  EXPECT_THAT(profile["layers"].dump(), HasSubstr("\"conv\"")) << "a layer of both models";
}

TEST_F(FusedFile, AReferenceThatWasPlacedForTheOtherTargetIsLoweredWithANote) {
  const Words to_stock{"lower", path("reference.pt"), "--target", "stock", "--output", path("stock.pt")};
  const Outcome stock = tsq(to_stock);
  ASSERT_EQ(stock.exit_code, 0) << stock.err;
  EXPECT_THAT(stock.out, HasSubstr("placed for target fused: layers are int8 that LibTorch"));
  EXPECT_FALSE(read_metadata(path("stock.pt")).contains("libraries"));
  Words quantize = quantize_arguments();
  quantize.insert(quantize.end(), {"--reference", path("of_stock.pt")});
  ASSERT_EQ(tsq(quantize).exit_code, 0);
  const json fused =
      json_of({"lower", path("of_stock.pt"), "--target", "fused", "--output", path("again.pt")});
  EXPECT_EQ(fused["target"], "fused");
  EXPECT_EQ(fused["placed_for"], "stock");
  EXPECT_TRUE(read_metadata(path("again.pt")).contains("libraries"));
  const Outcome same = tsq({"lower", path("reference.pt"), "--output", path("again.pt")});
  EXPECT_THAT(same.out, AllOf(HasSubstr("fused programs"), Not(HasSubstr("note"))));
}

}  // namespace commands_test
}  // namespace tsq::testing
