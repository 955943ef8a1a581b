// Layers with weights, each with the kernel that the engines have for it, and what keeps it from that kernel.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <string>
#include <string_view>
#include <vector>

#include "backends/choices/offers.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "passes/between_roundings.h"
#include "passes/lower/passes.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"

namespace tsq {
namespace lower_layers_test {

using c10::ScalarType;
using testing::between_roundings;
using testing::count;

struct Layer {
  std::string_view type;
  std::string_view activation;  ///< what the class does after its layer; empty: nothing
  std::string_view root;
  std::string kernel;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers{
      {"torch.nn.Linear", "", "torch.nn.Linear", "quantized::linear"},
      {"torch.ao.nn.intrinsic.LinearReLU", "torch.nn.ReLU", "torch.nn.Linear", "quantized::linear_relu"},
      {"torch.nn.Conv1d", "", "torch.nn.Conv1d", "quantized::conv1d"},
      {"torch.ao.nn.intrinsic.ConvReLU1d", "torch.nn.ReLU", "torch.nn.Conv1d", "quantized::conv1d_relu"},
      {"torch.nn.Conv2d", "", "torch.nn.Conv2d", "quantized::conv2d"},
      {"torch.ao.nn.intrinsic.ConvReLU2d", "torch.nn.ReLU", "torch.nn.Conv2d", "quantized::conv2d_relu"},
      {"torch.nn.Conv3d", "", "torch.nn.Conv3d", "quantized::conv3d"},
      {"torch.ao.nn.intrinsic.ConvReLU3d", "torch.nn.ReLU", "torch.nn.Conv3d", "quantized::conv3d_relu"},
      {"torch.nn.ConvTranspose1d", "", "torch.nn.ConvTranspose1d", "quantized::conv_transpose1d"},
      {"torch.nn.ConvTranspose2d", "", "torch.nn.ConvTranspose2d", "quantized::conv_transpose2d"},
      {"torch.nn.ConvTranspose3d", "", "torch.nn.ConvTranspose3d", "quantized::conv_transpose3d"},
  };
  return kLayers;
}

const std::vector<Layer>& layers_of_onednn() {
  static const std::vector<Layer> kLayers{
      {"torch.ao.nn.intrinsic.LinearLeakyReLU", "torch.nn.LeakyReLU", "torch.nn.Linear",
       "quantized::linear_leaky_relu"},
      {"torch.ao.nn.intrinsic.LinearTanh", "torch.nn.Tanh", "torch.nn.Linear", "quantized::linear_tanh"},
      {"torch.ao.nn.intrinsic.ConvAdd2d", "operator.add", "torch.nn.Conv2d", "quantized::conv2d_add"},
      {"torch.ao.nn.intrinsic.ConvAddReLU2d", "operator.add", "torch.nn.Conv2d",
       "quantized::conv2d_add_relu"},
  };
  return kLayers;
}

std::vector<Layer> all_layers() {
  std::vector<Layer> all = layers();
  all.insert(all.end(), layers_of_onednn().begin(), layers_of_onednn().end());
  return all;
}

bool is_transposed(const Layer& layer) { return layer.root.find("Transpose") != std::string_view::npos; }

/// How a layer is made.
struct Form {
  std::int64_t in{4};
  std::int64_t out{4};
  std::int64_t kernel{3};
  std::int64_t groups{1};
  std::optional<std::int64_t> axis{};  ///< of the scales of the weight, where it has several
};

ir::Weighted weighted_of(const Layer& layer, const Form& form) {
  torch::manual_seed(1);
  ir::Weighted weighted;
  const auto dims =
      static_cast<std::size_t>(layer.root.ends_with("Linear") ? 0 : layer.root[layer.root.size() - 2] - '0');
  std::vector<std::int64_t> sizes = is_transposed(layer) ? std::vector{form.in, form.out / form.groups}
                                                         : std::vector{form.out, form.in / form.groups};
  sizes.insert(sizes.end(), dims, form.kernel);
  weighted.weight = torch::randn(sizes) / 4;
  weighted.bias = torch::randn({form.out});
  weighted.groups = form.groups;
  weighted.stride = weighted.dilation = std::vector<std::int64_t>(dims, 1);
  weighted.padding = weighted.output_padding = std::vector<std::int64_t>(dims, 0);
  const at::Tensor scale =
      form.axis ? torch::full({weighted.weight.size(*form.axis)}, 0.02) : torch::tensor(0.02);
  weighted.weight_qparams =
      QParams{.scale = scale,
              .zero_point = torch::zeros_like(scale, at::kLong),
              .dtype = ScalarType::QInt8,
              .qscheme = form.axis ? c10::QScheme::PER_CHANNEL_AFFINE : c10::QScheme::PER_TENSOR_AFFINE,
              .axis = form.axis.value_or(0)};
  return weighted;
}

ir::ModuleCall call_of(const Layer& layer, const Form& form) {
  ir::ModuleCall root{.type = symbol(layer.root), .path = "layer", .weighted = weighted_of(layer, form)};
  if (layer.activation.empty()) return root;
  return {.type = symbol(layer.type),
          .path = "layer",
          .members = {root, {.type = symbol(layer.activation), .path = "activation"}}};
}

/// A layer between roundings; those that add read d twice.
ir::Model model_of(const Layer& layer, const Form& form = {}, ScalarType dtype = ScalarType::QUInt8) {
  const bool adds = layer.activation == "operator.add";
  ir::Model model =
      between_roundings(adds ? "%y : Tensor = aten::maximum(%d, %d)" : "%y : Tensor = aten::neg(%d)",
                        testing::kQuantized, dtype);
  testing::put_call(model, "y", call_of(layer, form));
  return model;
}

bool has_kernel(ir::Model model, const Layer& layer, const std::string& engine) {
  passes::lower_static(model, {.target = {.engine = engine}});
  return count(model, layer.kernel) == 1;
}

TEST(LowerLayers, EachHasItsKernel) {
  for (const Layer& layer : all_layers())
    EXPECT_TRUE(has_kernel(model_of(layer), layer, "onednn")) << layer.kernel;
}

TEST(LowerLayers, OneDnnAloneComputesWhatFollowsTheLayer) {
  for (const Layer& layer : layers_of_onednn()) {
    for (const std::string engine : {"x86", "fbgemm", "qnnpack"})
      EXPECT_FALSE(has_kernel(model_of(layer), layer, engine)) << layer.kernel << engine;
  }
}

TEST(LowerLayers, KernelsTakeUnsignedActivations) {
  for (const std::string engine : {"x86", "fbgemm", "onednn"}) {
    for (const Layer& layer : engine == "onednn" ? all_layers() : layers()) {
      EXPECT_TRUE(has_kernel(model_of(layer), layer, engine)) << layer.kernel << engine;
      EXPECT_FALSE(has_kernel(model_of(layer, {}, ScalarType::QInt8), layer, engine))
          << layer.kernel << engine;
    }
  }
}

TEST(LowerLayers, QnnpackTakesSignedActivationsByXnnpackAlone) {
  for (const Layer& layer : layers()) {
    const bool is_signed = has_kernel(model_of(layer, {}, ScalarType::QInt8), layer, "qnnpack");
    const bool is_unsigned = has_kernel(model_of(layer), layer, "qnnpack");
    EXPECT_EQ(is_signed, is_unsigned && at::globalContext().isXNNPACKAvailable()) << layer.kernel;
  }
}

TEST(LowerLayers, KernelsTakeBytes) {
  for (const Layer& layer : all_layers())
    EXPECT_FALSE(has_kernel(model_of(layer, {}, ScalarType::QInt32), layer, "onednn")) << layer.kernel;
}

TEST(LowerLayers, ScalesOfAWeightAreThoseOfItsOutputs) {
  for (const Layer& layer : all_layers()) {
    for (const std::int64_t axis : {0, 1}) {
      SCOPED_TRACE(layer.kernel + " " + std::to_string(axis));
      const ir::Model model = model_of(layer, {.axis = axis});
      const auto refusal =
          kernels::weighted_offer({.engine = "onednn"}, model, testing::node_named(model, "y"), nullptr)
              .refusal;
      const bool is_faulty = refusal && refusal->why.find("another dimension") != std::string::npos;
      EXPECT_EQ(!is_faulty, (axis == 1) == is_transposed(layer));
      if (is_transposed(layer)) continue;  // oneDNN packs none of several scales
      EXPECT_EQ(has_kernel(model_of(layer, {.axis = axis}), layer, "onednn"), axis == 0);
    }
  }
}

bool has_transposed_kernel(std::string_view dims, const Form& form, const std::string& engine,
                           TargetCpu cpu = TargetCpu::WithoutVnni) {
  for (const Layer& layer : layers()) {
    if (!is_transposed(layer) || !layer.type.ends_with(dims)) continue;
    ir::Model model = model_of(layer, form);
    passes::lower_static(model, {.target = {.engine = engine, .cpu = cpu}});
    return count(model, layer.kernel) == 1;
  }
  ADD_FAILURE() << "no such layer";
  return false;
}

TEST(LowerLayers, OneDnnTransposesAsManyChannelsAsItReads) {
  for (const char* dims : {"1d", "2d", "3d"}) {
    for (const std::int64_t out : {4, 6}) {
      EXPECT_EQ(has_transposed_kernel(dims, {.out = out}, "onednn"), out == 4) << dims;
      EXPECT_EQ(has_transposed_kernel(dims, {.out = out}, "x86", TargetCpu::Vnni), out == 4) << dims;
      EXPECT_TRUE(has_transposed_kernel(dims, {.out = out}, "x86")) << dims;
    }
  }
}

TEST(LowerLayers, FbgemmTransposesTwoRowsUnlessItsChannelsComeInEights) {
  for (const std::int64_t channels : {4, 8}) {
    const Form form{.in = channels, .out = channels, .kernel = 2};
    for (const std::string engine : {"x86", "fbgemm"})
      EXPECT_EQ(has_transposed_kernel("2d", form, engine), channels == 4) << engine;
  }
}

TEST(LowerLayers, QnnpackTransposesNoVolumesAndNoGroupsWithScalesOfTheirOwn) {
  EXPECT_FALSE(has_transposed_kernel("3d", {}, "qnnpack"));
  for (const char* dims : {"1d", "2d"}) {
    for (const std::int64_t groups : {1, 2})
      EXPECT_EQ(has_transposed_kernel(dims, {.groups = groups, .axis = 1}, "qnnpack"), groups == 1) << dims;
  }
}

/// Two calls of one layer.
ir::Model called_twice(const Layer& layer) {
  ir::Model model = between_roundings(
      "%y : Tensor = aten::neg(%d)\n"
      "  %u : Tensor = aten::neg(%d)\n"
      "  %s : Tensor = aten::quantize_per_tensor(%u, %scale, %zero, %dtype)\n"
      "  %t : Tensor = aten::dequantize(%s)");
  model.graph->registerOutput(testing::node_named(model, "t")->output());
  const ir::ModuleCall call = call_of(layer, {});
  testing::put_call(model, "y", call);
  testing::put_call(model, "u", call);
  return model;
}

TEST(LowerLayers, EachCallOfQnnpackPacksItsWeight) {
  for (const Layer& layer : layers()) {
    for (const std::string engine : {"qnnpack", "fbgemm"}) {
      if (engine == "qnnpack" && layer.kernel == "quantized::conv_transpose3d") continue;  // has no kernel
      ir::Model model = called_twice(layer);
      passes::lower_static(model, {.target = {.engine = engine, .cpu = TargetCpu::WithoutVnni}});
      EXPECT_EQ(count(model, layer.kernel), 2U) << layer.kernel << engine;
      EXPECT_EQ(model.packed_names.size(), engine == "qnnpack" ? 2U : 1U) << layer.kernel << engine;
    }
  }
}

/// Whether a file holds the quantized weight, which is packed when the file is loaded.
bool is_packed_when_loaded(const ir::Model& model) {
  for (const ir::Node* node : model.graph->nodes()) {
    if (node->kind() == c10::prim::GetAttr && node->s(c10::attr::name) == "packed") return true;
  }
  return false;
}

TEST(LowerLayers, VolumesOfQnnpackArePackedWhenTheyAreLoaded) {
  for (const Layer& layer : layers()) {
    ir::Model model = model_of(layer);
    passes::lower_static(model, {.target = {.engine = "qnnpack"}});
    EXPECT_EQ(is_packed_when_loaded(model), layer.kernel.starts_with("quantized::conv3d")) << layer.kernel;
  }
}

/// A layer whose output stays float.
ir::Model float_output(const Layer& layer, const Form& form, ScalarType dtype) {
  ir::Model model = model_of(layer, form, dtype);
  model.records.front().placement = ir::Placement::Int8FloatOut;
  return model;
}

TEST(LowerLayers, KernelsWithFloatOutputReadUnsignedBytesAndScalesOfTheOutputs) {
  const std::vector<Layer> layers{
      {"torch.nn.Linear", "", "torch.nn.Linear", "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"},
      {"torch.ao.nn.intrinsic.LinearReLU", "torch.nn.ReLU", "torch.nn.Linear",
       "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32"},
      {"torch.nn.Conv1d", "", "torch.nn.Conv1d", "onednn::qconv1d_pointwise"},
      {"torch.nn.Conv2d", "", "torch.nn.Conv2d", "onednn::qconv2d_pointwise"}};
  for (const Layer& layer : layers) {
    const bool is_linear = layer.root == "torch.nn.Linear";
    for (const std::string engine : {"x86", is_linear ? "fbgemm" : "onednn"}) {
      SCOPED_TRACE(layer.kernel + " " + engine);
      const auto has_float_output = [&](const Form& form, ScalarType dtype) {
        ir::Model model = float_output(layer, form, dtype);
        passes::lower_float_outputs(model, {.target = {.engine = engine}});
        const bool is_lowered = count(model, layer.kernel) == 1;
        EXPECT_EQ(is_packed_when_loaded(model), is_lowered && !is_linear);
        return is_lowered;
      };
      EXPECT_TRUE(has_float_output({.axis = 0}, ScalarType::QUInt8));
      EXPECT_FALSE(has_float_output({.axis = 1}, ScalarType::QUInt8));
      EXPECT_FALSE(has_float_output({.axis = 0}, ScalarType::QInt8));
      EXPECT_FALSE(has_float_output({.axis = 0}, ScalarType::QInt32));
    }
  }
}

/// A linear layer whose input is quantized when the model runs.
ir::Model dynamic(const Layer& layer, const Form& form) {
  ir::Model model = testing::model_of_graph("%x : Tensor", R"(
  %q : Tensor = aten::quantize_per_tensor_dynamic(%x, %quint8, %yes)
  %d : Tensor = aten::dequantize(%q)
  %y : Tensor = aten::neg(%d)
  return (%y)
)");
  testing::quantized_record(model, "y", qconfig("default_dynamic_qconfig"));
  testing::put_call(model, "y", call_of(layer, form));
  return model;
}

TEST(LowerLayers, OfInputsThatAreQuantizedAtRunTimeQnnpackReadsTheFullRange) {
  for (const Layer& layer : layers()) {
    if (layer.root != "torch.nn.Linear") continue;
    const std::string kernel = layer.kernel + "_dynamic";
    for (const std::string engine : {"qnnpack", "fbgemm"}) {
      ir::Model model = dynamic(layer, {});
      passes::lower_dynamic(model, {.target = {.engine = engine}});
      ASSERT_EQ(count(model, kernel), 1U) << engine;
      const auto reduces = ir::constant_value(testing::node_of_kind(model, kernel)->inputs().back());
      EXPECT_EQ(reduces->toBool(), engine == "fbgemm") << kernel;
    }
    ir::Model model = dynamic(layer, {.axis = 1});
    passes::lower_dynamic(model, {.target = {.engine = "fbgemm"}});
    EXPECT_EQ(count(model, kernel), 0U) << "its scales are not those of its outputs";
  }
}

/// Whether the cells of a recurrent layer leave out a bit of their input's range.
bool reduces_range(const torch::jit::Module& model) {
  for (const auto& attribute : model.named_attributes()) {
    if (!attribute.name.ends_with("cell_params_0")) continue;
    const auto& type = attribute.value.toObjectRef().type();
    const c10::IValue state = type->getMethod("__getstate__")({attribute.value});
    return state.toTupleRef().elements()[3].toIntVector().front() != 0;
  }
  ADD_FAILURE() << "no recurrent layer has a kernel";
  return false;
}

TEST(LowerLayers, RecurrentLayersOfQnnpackReadTheFullRange) {
  torch::manual_seed(6);
  torch::jit::Module model = testing::user_module("Recurrent");
  model.register_parameter("w", at::randn({15, 8}) / 4, false);
  model.register_parameter("u", at::randn({15, 5}) / 4, false);
  model.register_parameter("b", at::randn({15}) / 4, false);
  model.define(
      "def forward(self, x):\n"
      "  r = torch.gru(x, torch.zeros([1, x.size(1), 5]), [self.w, self.u, self.b, self.b], True, 1, 0.0, "
      "False, False, False)\n  return r[0], r[1]\n");
  for (const std::string engine : {"qnnpack", "fbgemm"}) {
    const BackendConfig backend =
        mode_backend_config(QuantizeMode::Dynamic, Recipe::Best, backend_config(engine));
    const QConfigMapping mapping = mode_qconfig_mapping(QuantizeMode::Dynamic, Recipe::Best, engine);
    EXPECT_EQ(reduces_range(convert(prepare(model, mapping, backend), backend).module()), engine == "fbgemm")
        << engine;
  }
}

TEST(LowerLayers, WeightsOfFloat16AreFbgemms) {
  for (const std::string engine : {"fbgemm", "qnnpack", "onednn"}) {
    ir::Model model = dynamic(layers().front(), {});
    ir::call_of(model, testing::node_named(model, "y")).weighted->weight_qparams->dtype = ScalarType::Half;
    passes::lower_dynamic(model, {.target = {.engine = engine}});
    EXPECT_EQ(count(model, "quantized::linear_dynamic_fp16"), engine == "fbgemm" ? 1U : 0U) << engine;
    const std::string& reason = model.records.front().decision.reason;
    EXPECT_EQ(reason.find("only fbgemm has kernels with float16 weights") != std::string::npos,
              engine != "fbgemm")
        << engine << reason;
  }
}

}  // namespace lower_layers_test
}  // namespace tsq
