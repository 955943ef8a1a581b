// Models in half, bfloat16 and double precision.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <array>
#include <string>

#include "ir/cast.h"
#include "passes/capture/passes.h"
#include "support/best_model.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace compute_in_float_test {

using torch::jit::Module;

constexpr std::array kDtypes{at::kHalf, at::kBFloat16, at::kDouble};

/// A convolution and a linear layer; `forward` computes from self.conv, self.linear and what it is given.
Module network(const std::string& methods, at::ScalarType dtype) {
  torch::manual_seed(1);
  Module model = testing::user_module("Network");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("linear", testing::linear(8, 4));
  model.register_buffer("table", torch::randn({4}));
  model.define(methods);
  model.to(dtype);
  model.eval();
  return model;
}

const std::string kForward =
    "def forward(self, x):\n"
    "  y = torch.relu(self.conv.forward(x))\n"
    "  return self.linear.forward(y.mean([2, 3])) + self.table\n";

at::Tensor input(at::ScalarType dtype) {
  torch::manual_seed(2);
  return torch::randn({4, 3, 8, 8}).to(dtype);
}

Module quantized(const Module& model, const std::vector<Sample>& samples, Recipe recipe) {
  const BackendConfig backend = backend_config("x86");
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86");
  Prepared prepared = prepare(model, mapping, backend, {.recipe = recipe});
  calibrate(prepared, samples);
  return convert(prepared, backend);
}

std::size_t casts(const Module& model) {
  ir::Model made = testing::captured(model);
  passes::compute_in_float(made, {});
  return static_cast<std::size_t>(
      std::count_if(made.calls.begin(), made.calls.end(),
                    [](const ir::ModuleCall& call) { return call.type.name == ir::kCastType; }));
}

TEST(ComputeInFloat, LayersAreQuantizedAndTheResultKeepsItsDtype) {
  for (const at::ScalarType dtype : kDtypes) {
    const Module model = network(kForward, dtype);
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      const Module lowered = quantized(model, {{input(dtype)}}, recipe);
      const at::Tensor got = testing::run(lowered, input(dtype));
      EXPECT_EQ(got.scalar_type(), dtype);
      EXPECT_EQ(testing::count(lowered, "aten::conv2d"), 0U) << dtype;
      EXPECT_GT(testing::sqnr(testing::run(model, input(dtype)).to(at::kDouble), got.to(at::kDouble)), 25)
          << dtype;
    }
  }
}

TEST(ComputeInFloat, ANumberInATensorOfItsOwnDtypeChangesNoDtype) {
  for (const char* number : {"torch.tensor(0.8).to(6).detach()", "torch.tensor(0.8, dtype=6)"}) {
    const Module model = network(std::string("def forward(self, x):\n"
                                             "  y = torch.relu(self.conv.forward(x))\n"
                                             "  return self.linear.forward(y.mean([2, 3])) * ") +
                                     number + "\n",
                                 at::kHalf);
    EXPECT_EQ(
        testing::run(quantized(model, {{input(at::kHalf)}}, Recipe::Best), input(at::kHalf)).scalar_type(),
        at::kHalf)
        << number;
  }
}

TEST(ComputeInFloat, AModelInFloatIsNotTouched) {
  EXPECT_EQ(casts(network(kForward, at::kFloat)), 0U);
  EXPECT_EQ(casts(network(kForward, at::kHalf)), 2U);
}

TEST(ComputeInFloat, ABufferInDoubleOfAModelInFloatIsNotTouched) {
  Module model = network(kForward, at::kFloat);
  model.setattr("table", model.attr("table").toTensor().to(at::kDouble));
  EXPECT_EQ(casts(model), 0U);
}

TEST(ComputeInFloat, EachOutputKeepsTheDtypeThatItHas) {
  for (const at::ScalarType dtype : kDtypes) {
    const Module model = network(
        "def forward(self, x):\n"
        "  y = torch.relu(self.conv.forward(x)).mean([2, 3])\n"
        "  z = self.linear.forward(y)\n"
        "  return z, z.argmax(1), torch.softmax(z, 1, dtype=6), x * 2, x, z + torch.zeros([4])\n",
        dtype);
    Module float_model = model;
    Module lowered = quantized(model, {{input(dtype)}}, Recipe::Best);
    const auto wanted = float_model.forward({input(dtype)}).toTuple();
    const auto got = lowered.forward({input(dtype)}).toTuple();
    for (std::size_t i = 0; i < wanted->elements().size(); ++i) {
      EXPECT_EQ(got->elements()[i].toTensor().scalar_type(), wanted->elements()[i].toTensor().scalar_type())
          << dtype << ", output " << i;
    }
  }
}

TEST(ComputeInFloat, APartInAnotherDtypeIsComputedInFloatToo) {
  for (const at::ScalarType dtype : kDtypes) {
    Module model =
        network(fmt::format("def forward(self, x):\n"
                            "  y = self.conv.forward(x.to({}))\n"
                            "  return x.mean([1, 2, 3]), self.linear.forward(torch.relu(y.float()).mean([2, "
                            "3])), x[:, :1] + y.float()\n",
                            static_cast<int>(dtype)),
                at::kFloat);
    model.attr("conv").toModule().to(dtype);
    Module lowered = quantized(model, {{input(at::kFloat)}}, Recipe::Best);
    EXPECT_EQ(
        testing::count(lowered, "quantized::conv2d") + testing::count(lowered, "onednn::qconv2d_pointwise"),
        1U)
        << dtype;
    const auto wanted = model.forward({input(at::kFloat)}).toTuple();
    const auto got = lowered.forward({input(at::kFloat)}).toTuple();
    for (std::size_t i = 0; i < wanted->elements().size(); ++i) {
      const at::Tensor tensor = got->elements()[i].toTensor();
      EXPECT_EQ(tensor.scalar_type(), at::kFloat) << dtype;
      EXPECT_GT(testing::sqnr(wanted->elements()[i].toTensor(), tensor), 25) << dtype;
    }
  }
}

TEST(ComputeInFloat, ContainersAreCastPartByPart) {
  const Module model = network(
      "def forward(self, xs: List[Tensor], d: Dict[str, Tensor], t: Tuple[Tensor, int], o: Optional[Tensor] "
      "= "
      "None):\n"
      "  y = self.conv.forward(xs[0]) + self.conv.forward(d[\"x\"]) + self.conv.forward(t[0])\n"
      "  if o is not None:\n"
      "    y = y + self.conv.forward(o)\n"
      "  ys: List[Tensor] = []\n"
      "  for x in xs:\n"
      "    ys.append(torch.relu(self.conv.forward(x)))\n"
      "  return {\"y\": y}, ys, t[1]\n",
      at::kHalf);
  const at::Tensor x = input(at::kHalf);
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("x", x);
  const Sample sample{c10::List<at::Tensor>({x, x}), dict, c10::ivalue::Tuple::create({x, 3})};
  Module float_model = model;
  Module lowered = quantized(model, {sample}, Recipe::Best);
  const auto wanted = float_model.forward(sample).toTuple();
  const auto got = lowered.forward(sample).toTuple();
  const auto y = [](const auto& result) { return result->elements()[0].toGenericDict().at("y").toTensor(); };
  EXPECT_EQ(y(got).scalar_type(), at::kHalf);
  EXPECT_GT(testing::sqnr(y(wanted).to(at::kFloat), y(got).to(at::kFloat)), 25);
  EXPECT_EQ(got->elements()[1].toTensorList().get(1).scalar_type(), at::kHalf);
  EXPECT_EQ(got->elements()[2].toInt(), 3);
}

TEST(ComputeInFloat, AWriteIntoACastCopyDoesNotReachWhatItWasMadeOf) {
  const Module model = network(
      "def forward(self, x):\n"
      "  y = self.conv.forward(x)\n"
      "  z = y.float()\n"
      "  z[:, 0] = 100.0\n"
      "  return y, z\n",
      at::kHalf);
  Module lowered = quantized(model, {{input(at::kHalf)}}, Recipe::Best);
  const auto got = lowered.forward({input(at::kHalf)}).toTuple();
  EXPECT_LT(got->elements()[0].toTensor().abs().max().item<float>(), 50);
  EXPECT_EQ(got->elements()[0].toTensor().scalar_type(), at::kHalf);
  EXPECT_EQ(got->elements()[1].toTensor().scalar_type(), at::kFloat);
}

TEST(ComputeInFloat, AMethodBesideForwardTakesAndGivesTheModelsDtype) {
  const Module model =
      network(kForward + "def head(self, x):\n  return self.linear.forward(x) + self.table\n", at::kHalf);
  Module lowered = quantized(model, {{input(at::kHalf)}}, Recipe::Best);
  const at::Tensor x = torch::randn({2, 8}).to(at::kHalf);
  const at::Tensor got = lowered.get_method("head")({x}).toTensor();
  EXPECT_EQ(got.scalar_type(), at::kHalf);
  EXPECT_TRUE(at::allclose(got, model.get_method("head")({x}).toTensor(), 1e-2, 1e-2));
}

TEST(ComputeInFloat, TheReportSaysSo) {
  const Prepared prepared = prepare(network(kForward, at::kBFloat16), default_qconfig_mapping("x86"),
                                    backend_config("x86"), {.recipe = Recipe::Fx});
  const auto& decisions = prepared.report().decisions;
  EXPECT_EQ(std::count_if(decisions.begin(), decisions.end(),
                          [](const Decision& each) {
                            return each.reason.starts_with("the model is in bfloat16") &&
                                   each.layer == "cast_x";
                          }),
            1);
}

/// What the report says of the casts at the boundary of a model with this weight in half precision.
std::string said_of_casts(const std::string& weight) {
  torch::manual_seed(3);
  Module model = testing::user_module("Cast");
  model.register_parameter("w", torch::randn({8, 8}).to(at::kHalf), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  return torch.relu(torch.linear(x, " + weight + "))\n");
  const Prepared prepared =
      prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  const auto& decisions = prepared.report().decisions;
  const auto found = std::find_if(decisions.begin(), decisions.end(),
                                  [](const Decision& each) { return each.layer == "cast_x"; });
  return found == decisions.end() ? std::string() : found->reason;
}

TEST(ComputeInFloat, AWeightThatIsCastToTheDtypeOfTheInputMakesNoModelInItsOwn) {
  for (const char* weight :
       {"self.w.to(x.dtype)", "self.w.to(x)", "self.w.to(x.device, x.dtype)",
        "self.w.to(device=x.device, dtype=x.dtype)", "self.w.float().to(x.dtype).half()"}) {
    const bool is_half = std::string(weight).ends_with("half()");
    EXPECT_TRUE(said_of_casts(weight).starts_with(is_half ? "the model is in float16"
                                                          : "parameters in float16 are cast"))
        << weight << ": " << said_of_casts(weight);
  }
  EXPECT_TRUE(said_of_casts("self.w").starts_with("the model is in float16"));
  EXPECT_EQ(said_of_casts("self.w.float()"), "");
}

}  // namespace compute_in_float_test
}  // namespace tsq
