// Training by the command: what it takes, what it says, what it refuses.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace training_test {

using nlohmann::json;
using ::testing::HasSubstr;

class Training : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    torch::jit::Module module = conv_bn_relu();
    for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
    module.save(path("model.pt"));
  }

  [[nodiscard]] std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"prepare", path("model.pt"), "--qat", "-o", path("prepared.pt")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void expect_refusal(const std::vector<std::string>& arguments, int exit_code,
                      const std::vector<std::string>& words) const {
    const Outcome outcome = tsq(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
  }
};

TEST_F(Training, ATrainedFileThatHasLostItsExtraFilesIsKnownAndConverts) {
  EXPECT_TRUE(answer(with({})).is_object());
  torch::jit::load(path("prepared.pt")).save(path("trained.pt"));  // as Python's torch.jit.save writes it
  const json facts = answer({"inspect", path("trained.pt")});
  EXPECT_EQ(facts["tsq"]["training"], true);
  EXPECT_EQ(facts["tsq"]["recipe"], "best");
  const json converted =
      answer({"convert", path("trained.pt"), "--allow-uncalibrated", "-o", path("reference.pt")});
  EXPECT_EQ(converted["operators"]["quantized"], 1) << converted;
  EXPECT_EQ(converted["operators"]["float"], 0) << converted;
}

TEST_F(Training, EveryCommandSaysHowAFileThatTrainsGoesOn) {
  EXPECT_TRUE(answer(with({})).is_object());
  torch::jit::load(path("prepared.pt")).save(path("trained.pt"));
  expect_refusal({"convert", path("prepared.pt"), "-o", path("r.pt")}, 1, {"no data", "train it first"});
  for (const std::string file : {"prepared.pt", "trained.pt"}) {
    expect_refusal({"lower", path(file), "-o", path("l.pt")}, 1, {"a model that trains", "tsq convert"});
    expect_refusal({"quantize", path(file), "--calib", path("data.pt"), "-o", path("q.pt")}, 1,
                   {"a model that trains", "tsq convert"});
  }
}

TEST_F(Training, AReferenceModelTrainsAndIsLowered) {
  EXPECT_TRUE(answer({"quantize", path("model.pt"), "--calib", path("data.pt"), "--no-check", "--reference",
                      path("reference.pt"), "-o", path("out.pt")})
                  .is_object());
  const json made = answer({"prepare", "--qat", path("reference.pt"), "-o", path("to_train.pt")});
  EXPECT_EQ(made["parameters"], 2) << made;
  torch::jit::load(path("to_train.pt")).save(path("trained.pt"));  // as Python's torch.jit.save writes it
  const json lowered = answer({"lower", path("trained.pt"), "-o", path("lowered.pt")});
  EXPECT_EQ(lowered["backend"], "x86");
  const at::Tensor x = torch::ones({1, 3, 8, 8});
  EXPECT_TRUE(at::allclose(torch::jit::load(path("lowered.pt")).forward({x}).toTensor(),
                           torch::jit::load(path("out.pt")).forward({x}).toTensor(), 1e-3, 1e-3));
  expect_refusal({"convert", path("trained.pt"), "-o", path("c.pt")}, 1, {"a reference model", "tsq lower"});
  expect_refusal({"prepare", "--qat", path("reference.pt"), "--backend", "x86", "-o", path("again.pt")}, 2,
                 {"has its configuration"});
}

TEST_F(Training, ATrainedFileThatWasFrozenIsNamed) {
  EXPECT_TRUE(answer(with({})).is_object());
  torch::jit::Module module = torch::jit::load(path("prepared.pt"));
  module.eval();
  torch::jit::freeze(module).save(path("frozen.pt"));
  expect_refusal({"convert", path("frozen.pt"), "-o", path("r.pt")}, 1, {"freezing", "torch.jit.save"});
}

TEST_F(Training, AnOptionOfAnotherCommandIsNamedWithThatCommand) {
  expect_refusal({"quantize", path("model.pt"), "--qat", "-o", path("q.pt")}, 2,
                 {"'--qat'", "'tsq prepare'"});
}

TEST_F(Training, DataDecidesWhatTrainsInFloat) {
  const json prepared = answer(with({"--calib", path("data.pt")}));
  EXPECT_EQ(prepared["operators"]["quantized"], 1) << prepared;
  expect_refusal(with({"--recipe", "fx", "--calib", path("data.pt")}), 2, {"--calib", "recipe best"});
  expect_refusal({"prepare", path("model.pt"), "-o", path("p.pt"), "--calib", path("data.pt")}, 2,
                 {"--calib", "--qat"});
}

TEST_F(Training, OptionsThatTrainingDoesNotReadAreRefused) {
  expect_refusal(with({"--smooth-quant", "0.5"}), 2, {"--smooth-quant", "without training", "--qat"});
  expect_refusal(with({"--weight-rounding", "nearest"}), 2, {"--weight-rounding", "without training"});
}

TEST_F(Training, AMappingWithoutFakeQuantizesIsRefused) {
  write_file(path("q.json"), tsq({"qconfig", "show", "x86"}).out);
  expect_refusal(with({"--recipe", "fx", "--qconfig", path("q.json")}), 1,
                 {"fake quantize", "qconfig show best_qat_x86"});
  write_file(path("q.json"), tsq({"qconfig", "show", "qat_x86"}).out);
  EXPECT_TRUE(answer(with({"--recipe", "fx", "--qconfig", path("q.json")}))["warnings"].empty());
}

TEST_F(Training, TheMappingsForTrainingAreListedAndLeadToNoWarning) {
  const json names = answer({"qconfig", "list"})["mappings"];
  for (const std::string engine : {"x86", "fbgemm", "qnnpack", "onednn"}) {
    for (const char* recipe : {"qat_", "best_qat_"}) {
      const std::string name = recipe + engine;
      const auto is_named = [&](const json& entry) { return entry["name"] == name; };
      EXPECT_TRUE(std::any_of(names.begin(), names.end(), is_named)) << name;
      write_file(path("q.json"), tsq({"qconfig", "show", name}).out);
      const json prepared = answer(with({"--backend", engine, "--qconfig", path("q.json")}));
      EXPECT_TRUE(prepared["warnings"].empty()) << name << prepared["warnings"];
    }
  }
}

TEST_F(Training, OfAFrozenFileTheNoteSaysWhatStaysFolded) {
  EXPECT_TRUE(answer(with({}))["notes"].empty());
  torch::jit::Module module = torch::jit::load(path("model.pt"));
  module.eval();
  torch::jit::freeze(module).save(path("model.pt"));
  EXPECT_THAT(answer(with({}))["notes"].dump(), HasSubstr("stay folded"));
}

}  // namespace training_test
}  // namespace tsq::testing
