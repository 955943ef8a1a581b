#include "cli/model_folder.h"

#include <torch/script.h>

#include <algorithm>

#include "support/small_models.h"

namespace tsq::testing {

void ModelFolder::SetUp() {
  std::string name = (std::filesystem::temp_directory_path() / "tsq-cli-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  folder_ = name;
  torch::manual_seed(7);
  conv_bn_relu().save(path("model.pt"));
  c10::List<at::Tensor> samples;
  for (int i = 0; i < 4; ++i) samples.push_back(torch::randn({2, 3, 8, 8}));
  write_data("data.pt", samples);
}

void ModelFolder::TearDown() { std::filesystem::remove_all(folder_); }

void ModelFolder::write_data(const std::string& name, const at::IValue& value) const {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  write_file(path(name), std::string(bytes.begin(), bytes.end()));
}

std::vector<std::string> ModelFolder::entries() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json ModelFolder::answer(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome outcome = tsq(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  nlohmann::json value = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << outcome.out;
  return value;
}

void ModelFolder::succeed(const std::vector<std::string>& arguments) {
  const Outcome outcome = tsq(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

std::vector<std::string> ModelFolder::quantize_arguments() const {
  return {"quantize", path("model.pt"), "--calib", path("data.pt"), "--output", path("out.pt")};
}

}  // namespace tsq::testing
