#include "torchscript/modules/pack_when_loaded.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>

#include "backends/kernels/packed.h"
#include "base/libtorch_error.h"
#include "operators/images/convolution_padding.h"
#include "torchscript/modules/tied_table.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

constexpr std::string_view kLinearPrepack = "quantized::linear_prepack";

constexpr const char* kLinear = R"(
def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], bool]:
    return (self.weight, self.bias, self.training)

def __setstate__(self, state: Tuple[Tensor, Optional[Tensor], bool]):
    self.weight = state[0]
    self.bias = state[1]
    self.training = state[2]
    self.packed = quantized.linear_prepack(state[0], state[1])
)";

/// With dtypes as numbers: 3 is int32, 12 qint8.
constexpr const char* kMatrix = R"(
def pack(self) -> __torch__.torch.classes.quantized.LinearPackedParamsBase:
    exact = torch.dequantize(self.matrix)
    if self.is_transposed:
        exact = torch.contiguous(torch.t(exact))
    if self.zero_columns > 0:
        exact = torch.constant_pad_nd(exact, [0, self.zero_columns], 0.0)
    if torch.numel(self.scale) == 1:
        weight = torch.quantize_per_tensor(exact, float(self.scale), 0, 12)
    else:
        weight = torch.quantize_per_channel(exact, self.scale, torch.zeros_like(self.scale, dtype=3), 0, 12)
    return quantized.linear_prepack(weight, self.bias)

def __getstate__(self) -> Tuple[Tensor, Tensor, Optional[Tensor], bool, int, bool]:
    return (self.matrix, self.scale, self.bias, self.is_transposed, self.zero_columns, self.training)

def __setstate__(self, state: Tuple[Tensor, Tensor, Optional[Tensor], bool, int, bool]):
    self.matrix = state[0]
    self.scale = state[1]
    self.bias = state[2]
    self.is_transposed = state[3]
    self.zero_columns = state[4]
    self.training = state[5]
    self.packed = self.pack()
)";

/// `PREPACK` stands for the packing operator.
constexpr std::string_view kConvolution = R"(
def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], List[int], List[int], List[int], int, bool]:
    return (self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.training)

def __setstate__(self, state: Tuple[Tensor, Optional[Tensor], List[int], List[int], List[int], int, bool]):
    self.weight = state[0]
    self.bias = state[1]
    self.stride = state[2]
    self.padding = state[3]
    self.dilation = state[4]
    self.groups = state[5]
    self.training = state[6]
    self.packed = PREPACK(state[0], state[1], state[2], state[3], state[4], state[5])
)";

constexpr const char* kPointwise = R"(
def pack(self) -> Tensor:
    input_sizes: Optional[List[int]] = None
    if len(self.input_sizes) != 0:
        input_sizes = self.input_sizes
    return onednn.qconv_prepack(self.weight, self.scale, 1.0, int(self.input_has_zero_point), self.stride, self.padding,
                                self.dilation, self.groups, input_sizes)

def __getstate__(self) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor], bool, List[int], List[int], List[int], List[int], int, bool]:
    return (self.weight, self.scale, self.zero_point, self.bias, self.input_has_zero_point, self.input_sizes, self.stride,
            self.padding, self.dilation, self.groups, self.training)

def __setstate__(self, state: Tuple[Tensor, Tensor, Tensor, Optional[Tensor], bool, List[int], List[int], List[int], List[int], int, bool]):
    self.weight = state[0]
    self.scale = state[1]
    self.zero_point = state[2]
    self.bias = state[3]
    self.input_has_zero_point = state[4]
    self.input_sizes = state[5]
    self.stride = state[6]
    self.padding = state[7]
    self.dilation = state[8]
    self.groups = state[9]
    self.training = state[10]
    self.packed = self.pack()
)";

/// None where there is none.
Attribute bias_of(const ir::Weighted& weighted) {
  return optional_tensor("bias", weighted.bias.defined() ? weighted.bias.detach() : at::Tensor());
}

/// The numbers of the convolution, and what else a module holds.
std::vector<Attribute> with_geometry(const ir::Weighted& weighted, const std::vector<Attribute>& others) {
  std::vector<Attribute> all{bias_of(weighted),
                             {"stride", c10::ListType::ofInts(), weighted.stride},
                             {"padding", c10::ListType::ofInts(), operators::kernel_padding(weighted)},
                             {"dilation", c10::ListType::ofInts(), weighted.dilation},
                             {"groups", c10::IntType::get(), weighted.groups},
                             {"training", c10::BoolType::get(), false}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

/// "quantized::conv3d_prepack" as TorchScript writes it.
std::string in_torchscript(std::string_view prepack) {
  const std::size_t colons = prepack.find("::");
  return fmt::format("{}.{}", prepack.substr(0, colons), prepack.substr(colons + 2));
}

Module packed_linear(const ir::Weighted& weighted, const at::Tensor& quantized) {
  return written_module(
      "tsq.PackedLinear",
      {{"weight", c10::TensorType::get(), quantized},
       bias_of(weighted),
       {"training", c10::BoolType::get(), false},
       {"packed", kernels::packed_type(kLinearPrepack), kernels::pack(kLinearPrepack, weighted, quantized)}},
      kLinear);
}

Module packed_convolution(std::string_view prepack, const ir::Weighted& weighted,
                          const at::Tensor& quantized) {
  constexpr std::string_view kPlaceholder = "PREPACK";
  std::string source(kConvolution);
  source.replace(source.find(kPlaceholder), kPlaceholder.size(), in_torchscript(prepack));
  return written_module("tsq.PackedConvolution",
                        with_geometry(weighted, {{"packed", kernels::packed_type(prepack),
                                                  kernels::pack(prepack, weighted, quantized)},
                                                 {"weight", c10::TensorType::get(), quantized}}),
                        source);
}

/// For which oneDNN orders a weight best; empty: not known.
std::vector<int64_t> sizes_of(const ir::ChannelStatistics& input) {
  if (!input.sizes.defined()) return {};
  const int64_t* sizes = input.sizes.const_data_ptr<int64_t>();
  return {sizes, sizes + input.sizes.numel()};
}

Module pointwise(const ir::Weighted& weighted, bool input_has_zero_point, const at::Tensor& weight) {
  const auto tensor = c10::TensorType::get();
  const bool is_by_channel = weight.qscheme() == c10::QScheme::PER_CHANNEL_AFFINE;
  const at::Tensor scale = is_by_channel ? weight.q_per_channel_scales().to(at::kFloat)
                                         : at::full({1}, weight.q_scale(), at::kFloat);
  Module module = written_module(
      "tsq.PointwiseConv",
      with_geometry(weighted, {{"weight", tensor, weight.int_repr()},
                               {"scale", tensor, scale},
                               {"zero_point", tensor, at::zeros_like(scale, at::kInt)},
                               {"input_has_zero_point", c10::BoolType::get(), input_has_zero_point},
                               {"input_sizes", c10::ListType::ofInts(), sizes_of(weighted.seen.input)},
                               {"packed", tensor, at::Tensor()}}),
      kPointwise);
  try {
    module.setattr("packed", module.run_method("pack"));
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    throw kernels::refusal("onednn::qconv_prepack", error.what());
  }
  return module;
}

}  // namespace

bool can_pack_matrix(const ir::Weighted& weighted) {
  if (!weighted.stride.empty() || weighted.weight.dim() != 2 || !weighted.weight_qparams ||
      weighted.group_size > 0)
    return false;
  const QParams& qparams = *weighted.weight_qparams;
  return qparams.dtype == c10::ScalarType::QInt8 && !qparams.zero_point.any().item<bool>() &&
         (qparams.scale.numel() == 1 || are_symmetric_rows(qparams));
}

Module pack_matrix_when_loaded(const ir::Weighted& weighted, const at::Tensor& matrix, bool is_transposed,
                               int64_t zero_columns) {
  ir::Weighted padded = weighted;
  padded.weight = at::constant_pad_nd(weighted.weight.detach(), {0, zero_columns});
  return written_module(
      "tsq.PackedMatrix",
      {{"matrix", c10::TensorType::get(), matrix},
       {"scale", c10::TensorType::get(), weighted.weight_qparams->scale},
       bias_of(weighted),
       {"is_transposed", c10::BoolType::get(), is_transposed},
       {"zero_columns", c10::IntType::get(), zero_columns},
       {"training", c10::BoolType::get(), false},
       {"packed", kernels::packed_type(kLinearPrepack), kernels::pack(kLinearPrepack, padded)}},
      kMatrix);
}

Module pack_when_loaded(std::string_view prepack, const ir::Weighted& weighted, bool input_has_zero_point,
                        const at::Tensor& quantized) {
  const at::Tensor weight = quantized.defined() ? quantized : kernels::quantized_weight(weighted);
  if (prepack == kLinearPrepack) return packed_linear(weighted, weight);
  return prepack == "onednn::qconv_prepack" ? pointwise(weighted, input_has_zero_point, weight)
                                            : packed_convolution(prepack, weighted, weight);
}

}  // namespace tsq::torchscript
