// tsq sensitivity, and the goals of tsq quantize.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/model_folder.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace goal_test {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

/// In the folder too: `chain.pt`, first → bad → last, whose middle layer int8 destroys, and `rows.pt` for it.
class Goals : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    torch::manual_seed(5);
    const at::NoGradGuard no_grad;
    torch::jit::Module model = user_module("Chain");
    torch::jit::Module first = linear(6, 8);
    first.attr("weight").toTensor().select(0, 0).zero_();
    first.attr("bias").toTensor().select(0, 0).zero_();
    torch::jit::Module bad = linear(8, 8);
    bad.attr("weight").toTensor().select(1, 0).fill_(300);
    model.register_module("first", first);
    model.register_module("bad", bad);
    model.register_module("last", linear(8, 5));
    model.define(
        "def forward(self, x):\n  return self.last.forward(self.bad.forward(self.first.forward(x)))\n");
    model.save(path("chain.pt"));
    c10::List<at::Tensor> samples;
    for (int i = 0; i < 8; ++i) samples.push_back(torch::randn({4, 6}));
    write_data("rows.pt", samples);
  }

  [[nodiscard]] Words command(const std::string& name, const Words& more) const {
    Words words{name, path("chain.pt"), "--calib", path("rows.pt"), "--output", path("out")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Words quantize(const Words& more) const { return command("quantize", more); }

  static json answer(Words words) {
    words.emplace_back("--json");
    const Outcome outcome = tsq(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    json value = json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << outcome.out;
    return value;
  }

  /// One sentence with all of `words`, and nothing new in the folder.
  void expect_refusal(const Words& arguments, int exit_code, const Words& words) {
    const Words before = entries();
    const Outcome outcome = tsq(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("tsq: error: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(entries(), before);
  }

  static Words kept(const json& result) {
    Words names;
    for (const json& layer : result["goal"]["kept_float"]) names.push_back(layer["layer"]);
    return names;
  }
};

TEST_F(Goals, SensitivityRanksLayersAndWritesTheMappingThatActs) {
  // On a machine on which all layers of so small a model are in int8.
  std::ofstream(path("machine.json")) << slow_in_float()->to_dict().dump();
  const Words same{"--weight-rounding", "nearest", "--machine", path("machine.json"), "--decibel-price", "0"};
  Words ranking{"--report", path("layers.json"), "--min-sqnr", "25"};
  ranking.insert(ranking.end(), same.begin(), same.end());
  const json found = answer(command("sensitivity", ranking));
  ASSERT_EQ(found["layers"].size(), 3U);
  EXPECT_EQ(found["layers"][0]["layer"], "bad");
  EXPECT_EQ(found["layers"][0]["op"], "torch.nn.Linear");
  EXPECT_LT(found["layers"][0]["alone_sqnr_db"], 20);
  EXPECT_EQ(found["output"]["float_layers"], 1);
  EXPECT_EQ(json::parse(read_file(path("layers.json")))["layers"], found["layers"]);
  Words quantizing{"quantize",  path("chain.pt"), "--calib",  path("rows.pt"),
                   "--qconfig", path("out"),      "--output", path("out.pt")};
  quantizing.insert(quantizing.end(), same.begin(), same.end());
  const json after = answer(quantizing);
  EXPECT_EQ(after["operators"]["quantized"], 2);
  EXPECT_THAT(after["operators"]["float_reasons"][0]["operators"], ElementsAre("bad"));
  EXPECT_NEAR(after["trial"]["sqnr_db"].get<double>(), found["layers"][1]["cumulative_sqnr_db"].get<double>(),
              0.5);
}

TEST_F(Goals, QuickSensitivitySaysWhatWasPredicted) {
  const Outcome outcome = tsq(command("sensitivity", {"--quick", "--float-layers", "1"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("by gradients"));
  EXPECT_THAT(outcome.out, HasSubstr("'bad' (torch.nn.Linear)"));
}

TEST_F(Goals, SensitivityShowsATable) {
  const Outcome outcome = tsq(command("sensitivity", {"--float-layers", "2"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("when all are int8"));
  EXPECT_THAT(outcome.out, HasSubstr("2 layers in float"));
  EXPECT_THAT(outcome.out, HasSubstr("'bad' (torch.nn.Linear)"));
  EXPECT_EQ(json::parse(read_file(path("out")))["module_name"].size(), 2U);
}

TEST_F(Goals, AnSqnrIsReachedWithTheOneBadLayerInFloat) {
  const json result = answer(quantize({"--min-sqnr", "25", "--qconfig-output", path("q.json"), "--report",
                                       path("report.json"), "--data", path("rows.pt")}));
  EXPECT_THAT(kept(result), ElementsAre("bad"));
  EXPECT_GE(result["goal"]["score"], 25);
  EXPECT_EQ(json::parse(read_file(path("q.json"))), result["goal"]["qconfig_mapping"]);
  EXPECT_EQ(json::parse(read_file(path("report.json")))["goal"], result["goal"]);
  const json compared = answer({"compare", path("chain.pt"), path("out"), "--data", path("rows.pt")});
  // The score is what other samples like these are certain to have.
  EXPECT_LE(result["goal"]["score"], compared["whole"]["sqnr_db"]);
}

TEST_F(Goals, AnAgreementIsTheOneThatCompareSees) {
  const json result = answer(quantize({"--min-agreement", "1", "--decisions", "output"}));
  const json compared = answer(
      {"compare", path("chain.pt"), path("out"), "--data", path("rows.pt"), "--decisions", "output:1"});
  EXPECT_EQ(compared["whole"]["top1_agreement"], 1.0);
  EXPECT_FALSE(kept(result).empty());
}

TEST_F(Goals, AProgramJudgesFilesAndItsLastNumberCounts) {
  const std::string program =
      "seen() { echo \"$1\" >> '" + path("seen.txt") + "'; echo 'run 1 of 2'; echo 'top-1: 0.75'; }; seen";
  const json result = answer(quantize({"--eval", program}));
  EXPECT_TRUE(kept(result).empty());
  EXPECT_EQ(result["goal"]["score"], 0.75);
  EXPECT_NEAR(result["goal"]["at_least"].get<double>(), 0.7425, 1e-12);
  EXPECT_THAT(read_file(path("seen.txt")), StartsWith(path("chain.pt") + "\n"));
}

TEST_F(Goals, AProgramTakesThePathInPlaceOfBraces) {
  const json result = answer(quantize({"--eval", "test -s {} && echo 3 || exit 1", "--max-drop", "0.5"}));
  EXPECT_EQ(result["goal"]["float_score"], 3);
  EXPECT_EQ(result["goal"]["at_least"], 1.5);
}

TEST_F(Goals, TheTextTellsWhatWasTried) {
  const Outcome outcome = tsq(quantize({"--min-sqnr", "25"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string word : {"samples of at least 25", " float layer", "predicted ",
                                 "float      'bad' (torch.nn.Linear)", "too little", "enough"}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

TEST_F(Goals, OutOfReachTellsTheBest) {
  // FX folds the batch norm, which changes the last bits: even in float the SQNR has an end.
  Words words = quantize_arguments();
  words.insert(words.end(), {"--min-sqnr", "1e9", "--recipe", "fx"});
  expect_refusal(words, 1, {"no model reaches the goal", "SQNR", "the best, all float", "has"});
  expect_refusal(quantize({"--eval", "case {} in *chain.pt) echo 1;; *) echo 0.5;; esac"}), 1,
                 {"no model reaches the goal", "at least 0.99", "0.5"});
}

TEST_F(Goals, TargetsAreChosenByRecipeBestAlone) {
  for (const std::string option : {"--backend", "--target"}) {
    expect_refusal(quantize({option, "auto", "--recipe", "fx"}), 2, {option + " auto", "recipe fx"});
    expect_refusal(
        {"quantize", path("chain.pt"), "--mode", "dynamic", option, "auto", "--output", path("out")}, 2,
        {option + " auto", "--calib"});
    expect_refusal({"prepare", path("chain.pt"), option, "auto", "--output", path("out")}, 2,
                   {option, "auto"});
  }
  const json result = answer(quantize({"--target", "auto"}));
  EXPECT_THAT((std::vector<json>{"stock", "fused"}), ::testing::Contains(result["target"]));
}

TEST_F(Goals, AFrontierIsAPageOrJson) {
  expect_refusal(quantize({"--frontier", path("frontier.txt")}), 2, {".html", ".json"});
  expect_refusal(quantize({"--frontier", path("frontier.json"), "--recipe", "fx"}), 2,
                 {"--frontier", "recipe best"});
  (void)answer(quantize({"--frontier", path("frontier.json")}));
  const json found = json::parse(read_file(path("frontier.json")));
  ASSERT_FALSE(found["frontier"].empty());
  EXPECT_TRUE(found["frontier"].front()["plan"].is_object());
  (void)answer(quantize({"--frontier", path("frontier.html")}));
  EXPECT_THAT(read_file(path("frontier.html")), HasSubstr("frontierView"));
}

TEST_F(Goals, ProgramsThatFail) {
  expect_refusal(quantize({"--eval", "echo something is wrong >&2; exit 3; true"}), 1,
                 {"failed with exit code 3: something is wrong"});
  expect_refusal(quantize({"--eval", "echo resnet50 top-one"}), 1, {"printed no number"});
  expect_refusal(quantize({"--eval", "echo 0.5 nan; true"}), 1, {"printed no number"});
  expect_refusal(quantize({"--eval", "/no/such/program"}), 1, {"/no/such/program", "exit code 127"});
  expect_refusal(quantize({"--eval", "kill -9 $$; true"}), 1, {"was ended by signal 9"});
}

TEST_F(Goals, OptionsThatDoNotGoTogether) {
  expect_refusal(quantize({"--min-sqnr", "20", "--min-agreement", "0.9"}), 2,
                 {"--min-sqnr and --min-agreement are two goals"});
  expect_refusal(quantize({"--min-sqnr", "20", "--max-drop", "0.1"}), 2, {"--max-drop", "--eval"});
  expect_refusal(quantize({"--min-sqnr", "20", "--convert-qconfig", path("q.json")}), 2,
                 {"--convert-qconfig and a goal"});
  expect_refusal(quantize({"--min-agreement", "1.5"}), 2, {"--min-agreement"});
  expect_refusal(quantize({"--min-sqnr", "20", "--max-latency", "1"}), 2, {"--min-sqnr and --max-latency"});
  for (const std::string text : {"soon", "0", "-1", "nan", "0.5y", "50%"})
    expect_refusal(quantize({"--max-latency=" + text}), 2, {"'" + text + "' is no time"});
  expect_refusal(quantize({"--eval", "true", "--max-drop", "-1"}), 2, {"--max-drop"});
  expect_refusal(quantize({"--min-sqnr", "much"}), 2, {"--min-sqnr", "much"});
  expect_refusal(
      {"quantize", path("chain.pt"), "--mode", "dynamic", "--min-sqnr", "20", "--output", path("out")}, 2,
      {"--min-sqnr needs samples", "--data"});
  expect_refusal({"quantize", path("chain.pt"), "--calib", path("rows.pt"), "--min-sqnr", "20", "--reference",
                  path("ref.pt")},
                 2, {"--output"});
}

TEST_F(Goals, OptionsOfSensitivityThatDoNotGoTogether) {
  expect_refusal({"sensitivity", path("chain.pt")}, 2, {"needs calibration data"});
  expect_refusal({"sensitivity", path("chain.pt"), "--mode", "dynamic"}, 2, {"--data"});
  expect_refusal(command("sensitivity", {"--min-sqnr", "20", "--float-layers", "1"}), 2,
                 {"--min-sqnr and --float-layers"});
  expect_refusal({"sensitivity", path("chain.pt"), "--calib", path("rows.pt"), "--min-sqnr", "20"}, 2,
                 {"--output"});
  expect_refusal({"sensitivity", path("model.pt"), "--calib", path("data.pt"), "--min-sqnr", "1e9",
                  "--output", path("q.json"), "--recipe", "fx"},
                 1, {"out of reach", "with all layers in float"});
  expect_refusal(command("sensitivity", {"--samples", "0"}), 2, {"--samples"});
}

TEST_F(Goals, AgreementOfImagesIsNone) {
  Words words = quantize_arguments();
  words.insert(words.end(), {"--min-agreement", "0.9"});
  expect_refusal(words, 1, {"no output is judged as decisions", "--decisions", "SQNR"});
}

TEST_F(Goals, DynamicModeNeedsSamplesOnly) {
  const json result = answer({"quantize", path("chain.pt"), "--mode", "dynamic", "--min-sqnr", "25", "--data",
                              path("rows.pt"), "--output", path("out")});
  EXPECT_THAT(kept(result), ElementsAre("bad"));
}

TEST_F(Goals, ASignalEndsTheProgramsOfTheUserToo) {
  const Words before = entries();
  const std::string pid_file = path("pid");
  Program program(quantize({"--eval", "(sleep 1000; true) & echo $! > " + pid_file + "; wait; true"}));
  for (int i = 0; i < 200 && read_file(pid_file).empty() && program.running(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string pid = read_file(pid_file);
  ASSERT_FALSE(pid.empty());
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_EQ(outcome.err, "");
  bool runs = true;
  for (int i = 0; i < 50 && runs; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::string status = read_file("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
    runs = !status.empty() && status.find(") Z") == std::string::npos;
  }
  EXPECT_FALSE(runs);
  std::filesystem::remove(pid_file);
  EXPECT_EQ(entries(), before);
}

}  // namespace goal_test
}  // namespace tsq::testing
