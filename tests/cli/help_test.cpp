// `--help` is the manual: every option stands in it, and every command shows how it is used.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "cli/program.h"

namespace tsq::testing {
namespace help_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Help, EachCommandNamesItsOptionsAndShowsExamples) {
  const Words configuration{"--backend x86|fbgemm|qnnpack|onednn",
                            "--backend-config",
                            "--qconfig",
                            "--mode static|dynamic|weight_only",
                            "--recipe fx|best",
                            "--dtype qint8|float16",
                            "--target-cpu",
                            "--machine machine.json",
                            "--target stock|fused",
                            "--weight-rounding nearest|learned",
                            "--effort low|normal|high",
                            "--cross-layer-equalization MARGIN"};
  const std::map<std::string, Words> commands{
      {"quantize", plus({"MODEL.pt", "--calib", "--output", "--reference", "--report", "np", "torch.save",
                         "--min-sqnr DB", "--min-agreement FRACTION", "--eval CMD", "--max-drop FRACTION",
                         "--data", "--samples", "--qconfig-output"},
                        configuration)},
      {"sensitivity", plus({"MODEL.pt", "--calib", "--data", "--samples", "--output", "--min-sqnr",
                            "--float-layers", "--report"},
                           configuration)},
      {"prepare", plus({"MODEL.pt", "--output", "--qat", "tsq prepare --qat model.pt"}, configuration)},
      {"calibrate", {"PREPARED.pt", "--calib", "--output"}},
      {"convert", {"CALIBRATED.pt", "--output", "--backend"}},
      {"lower", {"REF.pt", "--output", "--backend", "--target stock|fused"}},
      {"explain",
       plus({"MODEL.pt", "--calib", "--time", "--passes", "--convert-custom-config", "--convert-qconfig"},
            configuration)},
      {"inspect", {"MODEL.pt"}},
      {"compare", {"FLOAT.pt", "QUANT.pt", "--data", "SQNR"}},
      {"run", {"MODEL.pt", "--data", "--output", "--channels-last"}},
      {"verify", {"FLOAT.pt", "INT8.pt", "--data", "--samples", "SQNR"}},
      {"tune", {"MODEL.pt", "--data", "--output", "--engines", "--measured-threads", "--effort", "--seed"}},
      {"report", {"FLOAT.pt", "INT8.pt", "--data", "--output", "--no-times"}},
      {"bench",
       {"MODEL.pt", "--data", "--batch", "--concurrency", "--rounds", "--duration", "--warmup", "--launches",
        "--together", "--csv", "--output", "--compare", "--tolerance", "--profile", "--trace"}},
  };
  for (const auto& [command, words] : commands) {
    const Outcome outcome = tsq({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    for (const std::string& word :
         plus(words, {"--json", "--quiet", "--threads", "--library", "Examples:\n  tsq " + command})) {
      EXPECT_THAT(outcome.out, HasSubstr(word)) << command;
    }
  }
}

TEST(Help, TableCommandsListShowAndCheck) {
  for (const std::string command : {"backend-config", "qconfig"}) {
    const Outcome outcome = tsq({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    for (const std::string word : {"list", "show", "check", "Examples:"})
      EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

TEST(Help, ProgramNamesAllCommandsAndTheExitCodes) {
  const Outcome outcome = tsq({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const std::string word :
       {"quantize", "prepare", "calibrate", "convert", "lower", "explain", "sensitivity", "inspect",
        "compare", "bench", "run", "verify", "report", "backend-config", "qconfig", "Exit codes"}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

/// The words of a text that begin with "--".
std::set<std::string> options_in(const std::string& text) {
  static const std::regex kOption("--[a-z][a-z0-9-]*[a-z0-9]");
  return {std::sregex_token_iterator(text.begin(), text.end(), kOption), std::sregex_token_iterator()};
}

TEST(Help, PagesNameOnlyOptionsThatThereAre) {
  std::string help;
  for (const std::string command :
       {"quantize", "prepare", "calibrate", "convert", "lower", "explain", "sensitivity", "inspect",
        "compare", "bench", "run", "verify", "report", "backend-config", "qconfig"})
    help += tsq({command, "--help"}).out;
  const std::set<std::string> known = options_in(help);
  for (const std::string page :
       {"benchmarking.md", "coming-from.md", "command_line.md", "configuration.md", "sensitivity.md",
        "recipes.md", "recipes/placement.md", "recipes/numerics.md", "recipes/convert.md",
        "recipes/lower-and-tune.md", "recipes/report.md"}) {
    const std::string text = read_file(TSQ_DOCS "/" + page);
    EXPECT_FALSE(options_in(text).empty()) << page;
    for (const std::string& option : options_in(text))
      EXPECT_TRUE(known.contains(option)) << page << ": " << option;
  }
}

TEST(Help, VersionNamesLibTorchToo) {
  const Outcome outcome = tsq({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("tsq "));
  EXPECT_THAT(outcome.out, HasSubstr("LibTorch 2.13"));
}

}  // namespace help_test
}  // namespace tsq::testing
