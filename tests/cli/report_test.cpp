// tsq report: what the page is given. The page itself is tested in a browser.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "cli/model_folder.h"

namespace tsq::testing {
namespace report_test {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Report : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    ASSERT_EQ(tsq(quantize_arguments()).exit_code, 0);
  }
  /// What a report of the float model and so many int8 models shows; the page is at report.html.
  json report_of(const std::vector<std::string>& int8) {
    std::vector<std::string> words{"report", path("model.pt")};
    words.insert(words.end(), int8.begin(), int8.end());
    for (const std::string& word :
         {std::string("--data"), path("data.pt"), std::string("--output"), path("report.html"),
          std::string("--data-output"), path("report.json"), std::string("--no-times")})
      words.push_back(word);
    const Outcome outcome = tsq(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(read_file(path("report.json")));
  }
};

TEST_F(Report, HoldsTheOperatorsOfBothModelsWithWhatTheyReadAndTheirTimes) {
  const json models = report_of({path("out.pt")})["models"];
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0]["role"], "float");
  EXPECT_EQ(models[1]["role"], "int8");
  for (const json& model : models) {
    ASSERT_FALSE(model["operators"].empty());
    for (const json& op : model["operators"]) {
      EXPECT_GT(op["seconds"], 0.0) << op;
      for (const json& input : op["inputs"]) EXPECT_LT(input, op["id"]);
    }
    const json& last = model["operators"].back();
    EXPECT_EQ(last["inputs"].size(), 1U) << "it reads what another operator has made";
  }
  std::set<std::string> numbers;
  for (const json& op : models[1]["operators"]) numbers.insert(op["numbers"]);
  EXPECT_THAT(numbers, ::testing::IsSupersetOf({"int8", "conversion"}));
}

TEST_F(Report, ComparesModelsOfEveryEngine) {
  for (const std::string engine : {"fbgemm", "onednn", "qnnpack"}) {
    std::vector<std::string> arguments = quantize_arguments();
    arguments.insert(arguments.end(), {"--backend", engine});
    succeed(arguments);
    EXPECT_EQ(report_of({path("out.pt")})["models"][1]["engine"], engine);
  }
}

TEST_F(Report, HoldsTheRowsOfVerifyWithHistogramsAndRanges) {
  const json layer = report_of({path("out.pt")})["models"][1]["layers"][0];
  EXPECT_EQ(layer["layer"], "conv");
  EXPECT_GT(layer["sqnr_db"], 20);
  EXPECT_GT(layer["seconds"], 0.0);
  EXPECT_GT(layer["float_seconds"], 0.0);
  for (const char* kind : {"activation", "weight"}) {
    const json& histogram = layer[kind];
    ASSERT_EQ(histogram["counts"].size(), 64U) << kind;
    EXPECT_LT(histogram["low"], histogram["high"]);
    EXPECT_GE(histogram["range"][1], histogram["high"].get<double>() * 0.9) << "it was calibrated on these";
  }
}

TEST_F(Report, HoldsEachDecisionWithItsReason) {
  const json decisions = report_of({path("out.pt")})["models"][1]["decisions"];
  const auto conv =
      std::ranges::find(decisions, "conv", [](const json& each) { return each["layer"].get<std::string>(); });
  ASSERT_NE(conv, decisions.end()) << decisions.dump();
  EXPECT_EQ((*conv)["quantized"], true);
  EXPECT_THAT((*conv)["kernel"].get<std::string>(), HasSubstr("quantized::conv2d"));
}

TEST_F(Report, ShowsSeveralModelsAndMarksTheOperatorsThatTheRowsTellOf) {
  const json models = report_of({path("out.pt"), path("out.pt")})["models"];
  ASSERT_EQ(models.size(), 3U);
  const json& operators = models[2]["operators"];
  const auto conv =
      std::ranges::find(operators, "quantized::conv2d_relu", [](const json& op) { return op["kind"]; });
  ASSERT_NE(conv, operators.end());
  EXPECT_EQ((*conv)["sqnr_db"], models[2]["layers"][0]["sqnr_db"]);
}

TEST_F(Report, ThePageHoldsTheDataAndAsksNoNetwork) {
  (void)report_of({path("out.pt")});
  const std::string page = read_file(path("report.html"));
  EXPECT_THAT(page, HasSubstr(R"(<script type="application/json" id="tsq-data">{)"));
  EXPECT_THAT(page, Not(HasSubstr("<!--tsq:")));
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, Not(HasSubstr("<link rel=\"stylesheet\"")));
}

TEST_F(Report, AMissingFileLeavesTheOldPage) {
  write_file(path("report.html"), "old");
  const Outcome outcome = tsq({"report", path("model.pt"), path("none.pt"), "--data", path("data.pt"),
                               "--output", path("report.html")});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("none.pt"));
  EXPECT_EQ(read_file(path("report.html")), "old");
}

TEST_F(Report, AModelThatRaisesIsOneSentence) {
  torch::jit::Module module("Raises");
  module.define("def forward(self, x):\n  assert x.dim() == 7\n  return x\n");
  module.save(path("raises.pt"));
  const Outcome outcome = tsq({"report", path("model.pt"), path("raises.pt"), "--data", path("data.pt"),
                               "--output", path("report.html")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot run on the first sample: AssertionError"));
}

}  // namespace report_test
}  // namespace tsq::testing
