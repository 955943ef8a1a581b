#include "backends/kernels/dynamic_kernels.h"

#include <array>

#include "backends/kernels/first_row.h"

namespace tsq::kernels {
namespace {

using c10::ScalarType;

constexpr std::array kDynamic{
    DynamicKernel{"torch.nn.Linear", PostOp::None, ScalarType::QInt8, "quantized::linear_prepack",
                  "quantized::linear_dynamic", true},
    DynamicKernel{"torch.nn.Linear", PostOp::ReLU, ScalarType::QInt8, "quantized::linear_prepack",
                  "quantized::linear_relu_dynamic", true},
    DynamicKernel{"torch.nn.Linear", PostOp::None, ScalarType::Half, "quantized::linear_prepack_fp16",
                  "quantized::linear_dynamic_fp16", false},
    DynamicKernel{"torch.nn.Linear", PostOp::ReLU, ScalarType::Half, "quantized::linear_prepack_fp16",
                  "quantized::linear_relu_dynamic_fp16", false},
};

constexpr std::array kRecurrent{
    RecurrentKernel{"aten::lstm", "aten::quantized_lstm", false, true},
    RecurrentKernel{"aten::gru", "aten::quantized_gru", false, false},
    RecurrentKernel{"aten::lstm_cell", "quantized::quantized_lstm_cell_dynamic", true, false},
    RecurrentKernel{"aten::gru_cell", "quantized::quantized_gru_cell_dynamic", true, false},
    RecurrentKernel{"aten::rnn_tanh_cell", "quantized::quantized_rnn_tanh_cell_dynamic", true, false},
    RecurrentKernel{"aten::rnn_relu_cell", "quantized::quantized_rnn_relu_cell_dynamic", true, false},
};

constexpr std::array kRecurrentPackings{
    RecurrentPacking{ScalarType::QInt8, "quantized::linear_prepack",
                     "quantized::make_quantized_cell_params_dynamic"},
    RecurrentPacking{ScalarType::Half, "quantized::linear_prepack_fp16",
                     "quantized::make_quantized_cell_params_fp16"},
};

}  // namespace

const DynamicKernel* dynamic_kernel(std::string_view op, PostOp post_op, ScalarType weight_dtype) {
  return first_row(kDynamic, [&](const DynamicKernel& row) {
    return row.op == op && row.post_op == post_op && row.weight_dtype == weight_dtype;
  });
}

const RecurrentKernel* recurrent_kernel(std::string_view op) {
  return first_row(kRecurrent, [&](const RecurrentKernel& row) { return row.op == op; });
}

const RecurrentPacking* recurrent_packing(ScalarType weight_dtype) {
  return first_row(kRecurrentPackings,
                   [&](const RecurrentPacking& row) { return row.weight_dtype == weight_dtype; });
}

std::span<const DynamicKernel> dynamic_kernels() { return kDynamic; }
std::span<const RecurrentKernel> recurrent_kernels() { return kRecurrent; }

}  // namespace tsq::kernels
