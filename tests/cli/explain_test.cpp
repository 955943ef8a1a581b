// What explain, inspect and compare tell, which write nothing.
#include <gmock/gmock.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace explain_test {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

using ReadingCommands = ModelFolder;

TEST_F(ReadingCommands, ExplainDecidesWithoutWriting) {
  const std::vector<std::string> before = entries();
  const json report = answer({"explain", path("model.pt")});
  ASSERT_FALSE(report["operators"].empty());
  for (const json& each : report["operators"])
    EXPECT_THAT(each.dump(), Not(HasSubstr("no calibration sample"))) << "it was given none";
  EXPECT_EQ(entries(), before);
}

TEST_F(ReadingCommands, ExplainTakesTheMappingOfConvert) {
  json mapping = answer({"qconfig", "show", "best_x86"});
  mapping["module_name"] = json::array({json::array({"conv", mapping[""]})});
  write_file(path("all.json"), mapping.dump());
  mapping["module_name"][0][1] = nullptr;
  write_file(path("none.json"), mapping.dump());
  const auto is_quantized = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"explain", path("model.pt"), "--qconfig", path("all.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json operators = answer(arguments)["operators"];
    return std::ranges::any_of(operators,
                               [](const json& each) { return each["layer"] == "conv" && each["quantized"]; });
  };
  EXPECT_TRUE(is_quantized({}));
  EXPECT_FALSE(is_quantized({"--convert-qconfig", path("none.json")}));
}

TEST_F(ReadingCommands, ExplainWithDataTellsWhatRunsInInt8) {
  const json report = answer({"explain", path("model.pt"), "--calib", path("data.pt"), "--time", "2"});
  EXPECT_GT(report["summary"]["macs"], 0);
  EXPECT_GT(report["summary"]["int8_macs_share"], 0);
  EXPECT_GT(report["summary"]["float_seconds"], 0);
  EXPECT_EQ(report["operators"][0]["kernel"], "quantized::conv2d_relu");
  const Outcome text = tsq({"explain", path("model.pt"), "--calib", path("data.pt")});
  EXPECT_THAT(text.out, HasSubstr("multiply-accumulates in int8"));
}

TEST_F(ReadingCommands, ExplainNamesAnotherBackendOnlyWhereItQuantizes) {
  torch::manual_seed(0);
  torch::jit::Module block = user_module("Block");
  block.register_module("first", linear(8, 8));
  block.register_module("norm", layer_norm(8));
  block.define("def forward(self, x):\n  return torch.tanh(self.norm.forward(self.first.forward(x)))\n");
  block.save(path("block.pt"));
  const auto remedy = [&](const std::string& recipe) -> std::string {
    const json report = answer({"explain", path("block.pt"), "--recipe", recipe});
    for (const json& each : report["operators"]) {
      if (each["layer"] == "norm") return each.value("remedy", "");
    }
    ADD_FAILURE() << "no entry of the norm";
    return "";
  };
  EXPECT_EQ(remedy("best"), "leave it float: it stays float with backend onednn too");
}

TEST_F(ReadingCommands, ExplainListsThePasses) {
  EXPECT_FALSE(answer({"explain", path("model.pt")}).contains("passes"));
  const json passes = answer({"explain", path("model.pt"), "--passes"})["passes"];
  ASSERT_FALSE(passes.empty());
  EXPECT_EQ(passes[0]["room"], "capture");
  EXPECT_GE(passes[0]["changes"], 1);
  EXPECT_EQ(passes.back()["room"], "pack");
  for (const json& pass : passes) EXPECT_NE(pass["sentence"], "") << pass.dump();
  const Outcome text = tsq({"explain", path("model.pt"), "--passes"});
  EXPECT_THAT(text.out, HasSubstr("room"));
  EXPECT_THAT(text.out, HasSubstr(passes[0]["sentence"].get<std::string>()));
}

TEST_F(ReadingCommands, ExplainTimesOnlyWithData) {
  const Outcome outcome = tsq({"explain", path("model.pt"), "--time", "2"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--calib"));
}

TEST_F(ReadingCommands, InspectOfAFloatModel) {
  const json facts = answer({"inspect", path("model.pt")});
  EXPECT_EQ(facts["bytes"], std::filesystem::file_size(path("model.pt")));
  EXPECT_EQ(facts["parameters"]["count"], 4);  // weight and bias of convolution and batch norm
  EXPECT_EQ(facts["parameters"]["numbers"], 4 * 3 * 3 * 3 + 4 + 4 + 4);
  EXPECT_EQ(facts["operators"]["aten::relu"], 1);
  EXPECT_TRUE(facts["engines"].empty());
  EXPECT_TRUE(facts["tsq"].is_null());
}

TEST_F(ReadingCommands, InspectOfAQuantizedModel) {
  succeed(quantize_arguments());
  const json facts = answer({"inspect", path("out.pt")});
  EXPECT_EQ(facts["operators"]["quantized::conv2d_relu"], 1);
  EXPECT_EQ(facts["packed_weights"]["numbers"], 4 * 3 * 3 * 3 + 4);
  EXPECT_EQ(facts["tsq"]["stage"], "quantized");
  EXPECT_EQ(facts["tsq"]["backend"], "x86");
  bool works_on_x86 = false;
  for (const json& engine : facts["engines"])
    works_on_x86 = works_on_x86 || (engine["engine"] == "x86" && engine["works"] == true);
  EXPECT_TRUE(works_on_x86);
}

TEST_F(ReadingCommands, InspectOfAModelWithoutForward) {
  torch::jit::Module module = user_module("NoForward");
  module.define("def go(self, x):\n  return x\n");
  module.save(path("go.pt"));
  EXPECT_THAT(answer({"inspect", path("go.pt")})["methods"].dump(), HasSubstr("go(Tensor x) -> Tensor"));
}

/// A model whose output is known: x times `factor`, as rows of ten.
void save_scaling(const std::string& path, double factor) {
  torch::jit::Module module = user_module("Scaling");
  module.register_attribute("factor", c10::FloatType::get(), factor);
  module.define("def forward(self, x):\n  return (x * self.factor).reshape(-1, 10)\n");
  module.save(path);
}

TEST_F(ReadingCommands, CompareGivesTheNumbersOfAKnownDifference) {
  save_scaling(path("one.pt"), 1.0);
  save_scaling(path("near.pt"), 1.1);
  save_scaling(path("negative.pt"), -1.0);
  write_data("rows.pt", torch::arange(40).to(at::kFloat));
  const auto compared = [&](const std::string& other) {
    return answer({"compare", path("one.pt"), path(other), "--data", path("rows.pt"), "--decisions",
                   "output"})["whole"];
  };
  const json near = compared("near.pt");
  EXPECT_NEAR(near["plain_sqnr_db"].get<double>(), 20.0, 1e-4);  // the difference is a tenth
  // One sample of four rows: around their mean they are -15, -5, 5 and 15, with three of them free.
  const double varies = 10 * 4.0 / 3 * (2 * 225 + 2 * 25);
  const double error = 0.01 * 39 * 40 * 79 / 6;
  EXPECT_NEAR(near["sqnr_db"].get<double>(), 10 * std::log10(varies / error), 1e-4);
  EXPECT_NEAR(near["largest_error"].get<double>(), 3.9, 1e-5);
  EXPECT_NEAR(near["cosine"].get<double>(), 1.0, 1e-6);
  EXPECT_EQ(near["top1_agreement"], 1.0);
  EXPECT_EQ(near["decisions"]["rows"], 4);
  EXPECT_EQ(near["nearest_agreement"], 1.0);
  EXPECT_GT(near["row_cosine"], 0.99);
  EXPECT_EQ(near["equal_bits"], false);
  const json negative = compared("negative.pt");
  EXPECT_NEAR(negative["cosine"].get<double>(), -1.0, 1e-6);
  EXPECT_EQ(negative["top1_agreement"], 0.0);
}

TEST_F(ReadingCommands, CompareOfAModelWithItselfIsEqualInEveryBit) {
  const json result = answer({"compare", path("model.pt"), path("model.pt"), "--data", path("data.pt")});
  EXPECT_EQ(result["whole"]["equal_bits"], true);
  EXPECT_TRUE(result["whole"]["sqnr_db"].is_null());
  EXPECT_EQ(result["samples"], 4);
}

}  // namespace explain_test
}  // namespace tsq::testing
