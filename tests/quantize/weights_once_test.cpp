// No weight of the user's file is in the int8 file more often than in the float one, as numbers or packed,
// however many calls multiply with it.
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace weights_once_test {

using torch::jit::Module;

constexpr int64_t kFeatures = 64;
/// Of each weight that is counted: nothing else in these files has as many.
constexpr std::size_t kNumbers = kFeatures * kFeatures;

/// A model whose weights all have kNumbers numbers, as often as `weights` says, and one sample of its input.
struct Case {
  const char* name{};
  std::function<Module()> model{};
  std::size_t weights{};
  std::function<at::Tensor()> sample = [] { return torch::randn({16, kFeatures}); };
};

Module with_layers(const std::vector<std::string>& layers, const std::string& source) {
  Module model = testing::user_module("Shared");
  for (const std::string& name : layers) model.register_module(name, testing::linear(kFeatures, kFeatures));
  model.define(source);
  model.eval();
  return model;
}

Module called_three_times() {
  return with_layers({"fc"}, R"(
def forward(self, x):
    return self.fc.forward(torch.relu(self.fc.forward(torch.relu(self.fc.forward(x)))))
)");
}

Module product_three_times() {
  Module model = testing::user_module("Products");
  model.register_parameter("w", torch::randn({kFeatures, kFeatures}) / 8, /*is_buffer=*/false);
  model.register_parameter("b", torch::randn({kFeatures}) / 8, /*is_buffer=*/false);
  model.define(R"(
def forward(self, x):
    x = torch.relu(torch.linear(x, self.w, self.b))
    x = torch.relu(torch.linear(x, self.w, self.b))
    return torch.linear(x, self.w, self.b)
)");
  model.eval();
  return model;
}

Module tied(const std::string& source) {
  Module model = with_layers({"a", "b"}, source);
  model.attr("b").toModule().setattr("weight", model.attr("a").toModule().attr("weight"));
  return model;
}

Module tied_in_sequence() {
  return tied("def forward(self, x):\n  return self.b.forward(torch.relu(self.a.forward(x)))\n");
}

Module tied_in_branches() {
  return tied(R"(
def forward(self, x):
    if bool(x.sum() > 0):
        y = self.a.forward(x)
    else:
        y = self.b.forward(x)
    return torch.relu(y)
)");
}

/// The logarithm needs more than eight bits: the product stays float.
Module filter_bank() {
  Module model = testing::user_module("FilterBank");
  const at::Tensor filters = torch::rand({kFeatures, kFeatures}).square();
  model.register_buffer("filters", filters * (filters > 0.8));
  model.define(
      "def forward(self, x):\n  return torch.log(torch.matmul(torch.square(x), self.filters) + 1e-6)\n");
  model.eval();
  return model;
}

Module with_other_method() {
  return with_layers({"fc", "last"}, R"(
def forward(self, x):
    return self.last.forward(torch.relu(self.fc.forward(x)))
def encode(self, x):
    return torch.relu(self.fc.forward(x))
)");
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{{"called_three_times", called_three_times, 1},
                                        {"product_three_times", product_three_times, 1},
                                        {"tied_in_sequence", tied_in_sequence, 1},
                                        {"tied_in_branches", tied_in_branches, 1},
                                        {"filter_bank", filter_bank, 1},
                                        {"with_other_method", with_other_method, 2}};
  return kCases;
}

/// The tensors in a file that have kNumbers numbers, of one byte or of four.
std::size_t weights_in(const std::string& file) {
  std::istringstream stream(file);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  return static_cast<std::size_t>(std::ranges::count_if(reader.getAllRecords(), [&](const std::string& name) {
    const std::size_t bytes = std::get<1>(reader.getRecord(name));
    const bool is_tensor = name.starts_with("data/") || name.starts_with("constants/");
    return is_tensor && (bytes == kNumbers || bytes == kNumbers * sizeof(float));
  }));
}

std::string saved(const Module& model) {
  std::ostringstream stream;
  model.save(stream);
  return stream.str();
}

class WeightsOnce : public ::testing::TestWithParam<std::tuple<Case, const char*, QuantizeMode>> {};

TEST_P(WeightsOnce, NoneIsInTheFileMoreOftenThanInTheFloatFile) {
  const auto& [shape, engine, mode] = GetParam();
  torch::manual_seed(11);
  const Module model = shape.model();
  ASSERT_EQ(weights_in(saved(model)), shape.weights);
  std::vector<Sample> samples;
  for (int i = 0; i < 8; ++i) samples.push_back({shape.sample()});
  const Quantized quantized = quantize(model, samples, {.backend = engine, .mode = mode, .times = false});
  EXPECT_LE(weights_in(saved(quantized.module())), shape.weights);
}

/// One weight in half precision by two names, cast by each layer.
Module cast_by_two_names() {
  Module model = testing::user_module("Cast");
  const at::Tensor weight = (torch::randn({kFeatures, kFeatures}) / 8).to(at::kHalf);
  for (const char* name : {"w", "v"}) model.register_parameter(name, weight, /*is_buffer=*/false);
  model.define(R"(
def forward(self, x):
    return torch.linear(torch.relu(torch.linear(x, self.w.to(x.device, x.dtype))), self.v.type_as(x))
)");
  model.eval();
  return model;
}

TEST(CastWeightsOnce, ATensorOfTwoNamesIsInTheFileOnce) {
  for (const char* engine : {"x86", "fbgemm"}) {
    torch::manual_seed(11);
    std::vector<Sample> samples;
    for (int i = 0; i < 8; ++i) samples.push_back({torch::randn({16, kFeatures})});
    const Quantized quantized =
        quantize(cast_by_two_names(), samples,
                 {.backend = engine, .machine = testing::slow_in_float(), .times = false, .force = true});
    EXPECT_EQ(weights_in(saved(quantized.module())), 1U) << engine;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WeightsOnce,
                         ::testing::Combine(::testing::ValuesIn(cases()),
                                            ::testing::Values("x86", "fbgemm", "onednn", "qnnpack"),
                                            ::testing::Values(QuantizeMode::Static, QuantizeMode::Dynamic)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_" + std::get<1>(each.param) +
                                  (std::get<2>(each.param) == QuantizeMode::Static ? "_static" : "_dynamic");
                         });

}  // namespace weights_once_test
}  // namespace tsq
