// Every quantized kernel that lowering may put into a file runs on every engine, and what happens is what
// `tsq inspect` says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/engines.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/small_models.h"
#include "torchscript/modules/source_resolver.h"

namespace tsq::testing {
namespace engines_test {

using nlohmann::json;

/// A kernel's call in a file: the shapes of the input and of the weight, and what forward returns. `q` is the
/// quantized input, `w` the quantized weight.
struct Call {
  std::vector<int64_t> input;
  std::vector<int64_t> weight;
  std::string result;
};

std::vector<int64_t> shape(int64_t first, int dims, int64_t size) {
  std::vector<int64_t> sizes{first, 16};
  sizes.insert(sizes.end(), static_cast<std::size_t>(dims), size);
  return sizes;
}

std::string list(int dims, int value) {
  std::string text = "[";
  for (int i = 0; i < dims; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", value);
  return text + "]";
}

std::string packed(const std::string& layer, int dims) {
  return fmt::format("quantized.{}_prepack(w, None, {}, {}, {}{}, 1)", layer, list(dims, 1), list(dims, 1),
                     layer.starts_with("conv_transpose") ? list(dims, 0) + ", " : "", list(dims, 1));
}

void add_convolutions(std::map<std::string, Call>& calls) {
  for (const int dims : {1, 2, 3}) {
    for (const std::string kind : {"conv", "conv_transpose"}) {
      const std::string layer = fmt::format("{}{}d", kind, dims);
      const auto add = [&](const std::string& name, const std::string& arguments) {
        calls["quantized::" + name] = {shape(2, dims, 8), shape(16, dims, 3),
                                       fmt::format("quantized.{}({})", name, arguments)};
      };
      add(layer, fmt::format("q, {}, 0.05, 64", packed(layer, dims)));
      add(layer + "_dynamic", fmt::format("x, {}, False", packed(layer, dims)));
      if (kind == "conv") add(layer + "_relu", fmt::format("q, {}, 0.05, 64", packed(layer, dims)));
      if (layer == "conv2d") {
        add("conv2d_add", fmt::format("q, q, {}, 0.05, 64", packed(layer, dims)));
        add("conv2d_add_relu", fmt::format("q, q, {}, 0.05, 64", packed(layer, dims)));
      }
    }
  }
  for (const int dims : {1, 2}) {
    const std::string pad = list(dims, 1);
    calls[fmt::format("onednn::qconv{}d_pointwise", dims)] = {
        shape(2, dims, 8), shape(16, dims, 3),
        fmt::format("onednn.qconv{0}d_pointwise(q.int_repr(), 0.05, 64, onednn.qconv_prepack(w.int_repr(), "
                    "torch.full([1], 0.02), 0.05, 64, {1}, {1}, {1}, 1, None), torch.full([1], 0.02), "
                    "torch.zeros([1], dtype=3), None, {1}, {1}, {1}, 1, 1.0, 0, 6, \"none\", "
                    "self.scalars, \"\")",
                    dims, pad)};
  }
}

void add_linear_layers(std::map<std::string, Call>& calls) {
  const auto add = [&](const std::string& name, const std::string& arguments) {
    calls["quantized::" + name] = {{2, 16}, {8, 16}, fmt::format("quantized.{}({})", name, arguments)};
  };
  const std::string int8 = "quantized.linear_prepack(w, None)";
  const std::string half = "quantized.linear_prepack_fp16(self.weight, None)";
  add("linear", "q, " + int8 + ", 0.05, 64");
  add("linear_relu", "q, " + int8 + ", 0.05, 64");
  add("linear_leaky_relu", "q, " + int8 + ", 0.05, 64, 0.1");
  add("linear_tanh", "q, " + int8 + ", 0.05, 64");
  for (const std::string relu : {"", "_relu"}) {
    add(fmt::format("linear_with_input_q_dq_qweight_dq{}_output_fp32", relu), "x, 0.05, 64, " + int8);
    add(fmt::format("linear{}_dynamic", relu), "x, " + int8 + ", False");
    add(fmt::format("linear{}_dynamic_fp16", relu), "x, " + half);
  }
}

void add_recurrent_layers(std::map<std::string, Call>& calls) {
  const std::string int8 = "quantized.linear_prepack(w, None)";
  const std::string cell = fmt::format(
      "[quantized.make_quantized_cell_params_dynamic({0}, {0}, self.bias, self.bias, False)]", int8);
  const std::string state = "torch.zeros([1, 2, 16])";
  calls["aten::quantized_lstm"] = {
      {3, 2, 16},
      {64, 16},
      fmt::format("torch.quantized_lstm(x, [{0}, {0}], {1}, True, 1, 0.0, False, False, False, dtype=12, "
                  "use_dynamic=True)[0]",
                  state, cell)};
  calls["aten::quantized_gru"] = {
      {3, 2, 16},
      {48, 16},
      fmt::format("torch.quantized_gru(x, {}, {}, True, 1, 0.0, False, False, False)[0]", state, cell)};
  const auto add_cell = [&](const std::string& name, int64_t gates, const std::string& states) {
    calls["quantized::" + name] = {
        {2, 16},
        {16 * gates, 16},
        fmt::format("quantized.{0}(x, {1}, {2}, {2}, self.bias, self.bias)", name, states, int8)};
  };
  add_cell("quantized_lstm_cell_dynamic", 4, "[x, x]");
  add_cell("quantized_gru_cell_dynamic", 3, "x");
  add_cell("quantized_rnn_tanh_cell_dynamic", 1, "x");
  add_cell("quantized_rnn_relu_cell_dynamic", 1, "x");
}

void add_plain_operators(std::map<std::string, Call>& calls) {
  const std::string scale = ", 0.05, 64)";
  const std::string statistics = "self.one, self.one, self.one, self.one, 1e-05";
  for (const char* name : {"add", "add_relu", "mul", "mul_relu"})
    calls[fmt::format("quantized::{}", name)] = {
        {2, 16}, {1}, fmt::format("quantized.{}(q, q{}", name, scale)};
  calls["quantized::matmul"] = {{16, 16}, {1}, "quantized.matmul(q, q" + scale};
  for (const int dims : {2, 3}) {
    for (const std::string relu : {"", "_relu"})
      calls[fmt::format("quantized::batch_norm{}d{}", dims, relu)] = {
          shape(2, dims, 4),
          {1},
          fmt::format("quantized.batch_norm{}d{}(q, {}{}", dims, relu, statistics, scale)};
  }
  const std::vector<int64_t> image = shape(2, 2, 4);
  calls["quantized::elu"] = {image, {1}, "quantized.elu(q, 0.05, 64, 1.0, 1.0, 1.0)"};
  calls["quantized::leaky_relu"] = {image, {1}, "quantized.leaky_relu(q, 0.1, False" + scale};
  calls["quantized::hardswish"] = {image, {1}, "quantized.hardswish(q" + scale};
  calls["quantized::instance_norm"] = {
      image, {1}, "quantized.instance_norm(q, self.one, self.one, 1e-05" + scale};
  calls["quantized::layer_norm"] = {
      {2, 16}, {1}, "quantized.layer_norm(q, [16], self.one, self.one, 1e-05" + scale};
  calls["quantized::group_norm"] = {
      image, {1}, "quantized.group_norm(q, 4, self.one, self.one, 1e-05" + scale};
  calls["quantized::softmax"] = {{2, 16}, {1}, "quantized.softmax(q, -1, 0.00390625, 0)"};
  calls["quantized::prelu"] = {image, {1}, "quantized.prelu(q, w" + scale};
}

std::map<std::string, Call> all_calls() {
  std::map<std::string, Call> calls;
  add_convolutions(calls);
  add_linear_layers(calls);
  add_recurrent_layers(calls);
  add_plain_operators(calls);
  return calls;
}

class Engines : public ModelFolder {
 protected:
  /// A file whose forward is one call.
  void write_model(const std::string& name, const Call& call) {
    torch::jit::Module module = user_module("Call");
    module.register_buffer("weight", torch::randn(call.weight));
    module.register_buffer("bias", torch::randn(call.weight[0]));
    module.register_buffer("one", torch::ones({16}));
    const auto scalar = c10::OptionalType::create(c10::NumberType::get());
    module.register_attribute("scalars", c10::ListType::create(scalar), c10::impl::GenericList(scalar));
    const bool is_slope = name == "quantized::prelu";
    module.define(fmt::format("def forward(self, x):\n"
                              "  q = torch.quantize_per_tensor(x, 0.05, 64, 13)\n"
                              "  w = torch.quantize_per_tensor(self.weight, 0.02, {}, {})\n"
                              "  return {}\n",
                              is_slope ? 64 : 0, is_slope ? 13 : 12, call.result),
                  torchscript::source_resolver());
    module.save(path("call.pt"));
  }

  /// What LibTorch says to the file under an engine; empty where it runs.
  [[nodiscard]] std::string refusal(at::QEngine engine, const Call& call) const {
    at::globalContext().setQEngine(engine);
    try {
      torch::jit::load(path("call.pt")).forward({torch::randn(call.input)});
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(Engines, InspectSaysOfEveryKernelOnWhichEnginesItRuns) {
  const auto calls = all_calls();
  const at::QEngine before = at::globalContext().qEngine();
  for (const std::string& kernel : all_kernels()) {
    const auto call = calls.find(kernel);
    ASSERT_NE(call, calls.end()) << "no call of " << kernel << " here";
    write_model(kernel, call->second);
    const Outcome outcome = tsq({"inspect", path("call.pt"), "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << kernel << ": " << outcome.err;
    const json engines = json::parse(outcome.out)["engines"];
    std::size_t running = 0;
    for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
      if (engine == at::QEngine::NoQEngine) continue;
      std::string name = at::toString(engine);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      const std::string why = refusal(engine, call->second);
      running += why.empty() ? 1 : 0;
      for (const json& answer : engines) {
        if (answer["engine"] != name) continue;
        EXPECT_EQ(answer["works"].get<bool>(), why.empty())
            << kernel << " on " << name << ": inspect says '" << answer["reason"] << "', LibTorch '" << why
            << "'";
      }
      EXPECT_TRUE(!engines.empty() || why.empty()) << kernel << " on " << name << ": " << why;
    }
    EXPECT_GT(running, 0U) << kernel << " runs nowhere: is its call right?";
  }
  at::globalContext().setQEngine(before);
}

TEST_F(Engines, WhereAKernelMayBeWrongInspectSaysSo) {
  torch::manual_seed(0);
  torch::jit::Module model = user_module("Clamped");
  model.register_module("first", conv2d(3, 8, 3));
  model.register_module("last", conv2d(8, 8, 1));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu6(self.first.forward(x))\n"
      "  return self.last.forward(torch.clamp(torch.cat([y, x.repeat([1, 3, 1, 1])[:, :8]], 0), 0.0, "
      "3.0))\n");
  model.save(path("clamped.pt"));
  write_data("images.pt", torch::randn({4, 3, 8, 8}));
  for (const std::string engine : {"x86", "qnnpack"}) {
    ASSERT_EQ(tsq({"quantize", path("clamped.pt"), "--calib", path("images.pt"), "--backend", engine,
                   "--recipe", "fx", "--no-check", "-o", path("q.pt")})
                  .exit_code,
              0);
    const json inspected = json::parse(tsq({"inspect", path("q.pt"), "--json"}).out);
    for (const json& fit : inspected["engines"]) {
      const bool is_doubted = fit["engine"] == "qnnpack" && engine != "qnnpack";
      EXPECT_EQ(fit["doubt"].get<std::string>().empty(), !is_doubted) << engine << ": " << fit.dump();
    }
  }
}

TEST_F(Engines, AFileForX86WorksOnX86) {
  torch::manual_seed(0);
  torch::jit::Module model = user_module("Head");
  model.register_module("fc", linear(512, 512));
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  model.save(path("head.pt"));
  write_data("rows.pt", torch::randn({64, 512}));
  ASSERT_EQ(tsq({"quantize", path("head.pt"), "--calib", path("rows.pt"), "-o", path("q.pt")}).exit_code, 0);
  const json facts = json::parse(tsq({"inspect", path("q.pt"), "--json"}).out);
  std::map<std::string, bool> works;
  for (const json& engine : facts["engines"]) works[engine["engine"]] = engine["works"];
  EXPECT_TRUE(works.at("x86"));
  EXPECT_EQ(works.at("onednn"),
            !facts["operators"].contains("quantized::linear_with_input_q_dq_qweight_dq_output_fp32"));
}

}  // namespace engines_test
}  // namespace tsq::testing
