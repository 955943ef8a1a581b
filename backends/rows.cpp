#include "backends/rows.h"

#include <fmt/format.h>

#include "config/fixed_range_operators.h"

namespace tsq {
namespace {

/// What an observer of a fixed range finds, as what a kernel wants.
DTypeWithConstraints exactly(const ObserverSpec& observer) {
  return {.dtype = observer.dtype,
          .quant_min_lower_bound = observer.quant_min,
          .quant_max_upper_bound = observer.quant_max,
          .scale_exact_match = observer.scale,
          .zero_point_exact_match = observer.zero_point};
}

DTypes with_fixed_range(DTypes dtypes, const DTypeWithConstraints& range) {
  for (DTypeConfig& config : dtypes) {
    for (DTypeWithConstraints* port : {&config.input_dtype, &config.output_dtype}) {
      if (port->dtype == range.dtype) *port = range;
    }
  }
  return dtypes;
}

/// The names that end in "2d", and so on. PyTorch has all of them, or symbol() throws.
ConvFamily family_named(std::string_view dims) {
  const auto named = [&](std::string_view name) { return symbol(fmt::format("torch.{}{}", name, dims)); };
  return {.conv = named("nn.Conv"),
          .transpose = named("nn.ConvTranspose"),
          .bn = named("nn.BatchNorm"),
          .reference = named("ao.nn.quantized.reference.Conv"),
          .transpose_reference = named("ao.nn.quantized.reference.ConvTranspose"),
          .conv_relu = named("ao.nn.intrinsic.ConvReLU"),
          .conv_bn = named("ao.nn.intrinsic.ConvBn"),
          .conv_bn_relu = named("ao.nn.intrinsic.ConvBnReLU"),
          .qat = named("ao.nn.qat.Conv"),
          .relu_qat = named("ao.nn.intrinsic.qat.ConvReLU"),
          .bn_qat = named("ao.nn.intrinsic.qat.ConvBn"),
          .bn_relu_qat = named("ao.nn.intrinsic.qat.ConvBnReLU"),
          .functional = named("nn.functional.conv"),
          .functional_transpose = named("nn.functional.conv_transpose")};
}

template <typename Table>
void append(Table& table, const Table& rows) {
  table.insert(table.end(), rows.begin(), rows.end());
}

Rows conv_transpose_rows(const ConvFamily& f) {
  return {
      {.pattern = f.transpose, .root = f.transpose, .reference = f.transpose_reference},
      {.pattern = chain({f.transpose, f.bn}),
       .root = f.transpose,
       .reference = f.transpose_reference,
       .fuser = Fuser::ConvTransposeBn},
      {.pattern = f.functional_transpose, .inputs = {{"weight", 1}, {"bias", 2}}},
  };
}

}  // namespace

Rows joined(const std::vector<Rows>& parts) {
  Rows table;
  for (const Rows& part : parts) append(table, part);
  return table;
}

Rows module_rows(Symbol root, Symbol qat, Symbol reference) {
  return {{.pattern = root, .root = root, .qat = qat, .reference = reference},
          {.pattern = qat, .root = root, .reference = reference}};
}

Configs with_columns(const Rows& rows, ObservationType observation, const DTypes& dtypes) {
  Configs table;
  for (const Row& row : rows)
    table.push_back({.pattern = row.pattern,
                     .observation_type = observation,
                     .dtype_configs = dtypes,
                     .root_module = row.root,
                     .qat_module = row.qat,
                     .reference_quantized_module = row.reference,
                     .fused_module = row.fused,
                     .fuser_method = row.fuser,
                     .input_type_to_index = row.inputs});
  return table;
}

const ConvFamily& conv_family(std::size_t dims) {
  static const std::array kFamilies{family_named("1d"), family_named("2d"), family_named("3d")};
  return kFamilies.at(dims - 1);
}

// PyTorch sets the rows of conv_relu and relu_qat twice, and the second setting replaces the first in place:
// these rows have what the second has. So ConvReLU has no root and no reference, which the row of the plain
// convolution provides.
Rows conv_family_rows(const ConvFamily& f) {
  return joined(
      {module_rows(f.conv, f.qat, f.reference),
       {
           {.pattern = f.functional, .inputs = {{"weight", 1}, {"bias", 2}}},
           {.pattern = chain({f.conv, nn::ReLU}), .fused = f.conv_relu, .fuser = Fuser::Sequential},
           {.pattern = chain({f.conv, F::relu}), .fused = f.conv_relu, .fuser = Fuser::Sequential},
           {.pattern = f.conv_relu, .qat = f.relu_qat},
           {.pattern = f.relu_qat, .root = f.conv, .reference = f.reference},
           {.pattern = chain({f.functional, nn::ReLU})},
           {.pattern = chain({f.functional, F::relu})},
           {.pattern = chain({f.conv, f.bn}), .fused = f.conv_bn, .fuser = Fuser::ConvBn},
           {.pattern = chain({f.conv, f.bn, nn::ReLU}), .fused = f.conv_bn_relu, .fuser = Fuser::ConvBnReLU},
           {.pattern = chain({f.conv, f.bn, F::relu}),
            .root = f.conv,
            .fused = f.conv_bn_relu,
            .fuser = Fuser::ConvBnReLU},
           {.pattern = f.conv_bn, .qat = f.bn_qat},
           {.pattern = f.conv_bn_relu, .qat = f.bn_relu_qat},
           {.pattern = f.bn_qat, .root = f.conv, .reference = f.reference},
           {.pattern = f.bn_relu_qat, .root = f.conv, .reference = f.reference},
       }});
}

Configs conv_rows(const DTypes& dtypes) {
  Rows table;
  for (const std::size_t dims : {1, 2, 3})
    append(table, joined({conv_family_rows(conv_family(dims)), conv_transpose_rows(conv_family(dims))}));
  return with_columns(table, kOwnObserver, dtypes);
}

Rows linear_alone_rows() {
  return joined({module_rows(nn::Linear, nnqat::Linear, nnqr::Linear),
                 {{.pattern = F::linear, .inputs = {{"weight", 1}, {"bias", 2}}}}});
}

Configs linear_rows(const DTypes& dtypes) {
  const Rows fused = {
      {.pattern = chain({nn::Linear, nn::ReLU}), .fused = nni::LinearReLU, .fuser = Fuser::Sequential},
      {.pattern = chain({nn::Linear, F::relu}), .fused = nni::LinearReLU, .fuser = Fuser::Sequential},
      {.pattern = nni::LinearReLU, .root = nn::Linear, .qat = nniqat::LinearReLU, .reference = nnqr::Linear},
      {.pattern = nniqat::LinearReLU, .root = nn::Linear, .reference = nnqr::Linear},
      {.pattern = chain({F::linear, nn::ReLU})},
      {.pattern = chain({F::linear, F::relu})},
      {.pattern = chain({nn::Linear, nn::BatchNorm1d}), .fused = nni::LinearBn1d, .fuser = Fuser::LinearBn},
      {.pattern = nni::LinearBn1d, .root = nn::Linear, .qat = nniqat::LinearBn1d, .reference = nnqr::Linear},
      {.pattern = nniqat::LinearBn1d, .root = nn::Linear, .reference = nnqr::Linear},
  };
  return with_columns(joined({linear_alone_rows(), fused}), kOwnObserver, dtypes);
}

Configs of_two_operands(const Rows& rows, const DTypes& dtypes) {
  Configs table = with_columns(rows, kOwnObserver, dtypes);
  for (BackendPatternConfig& row : table)
    row.num_tensor_args_to_observation_type = {{0, kOwnObserver}, {1, kSharedObserver}, {2, kOwnObserver}};
  return table;
}

Configs arithmetic_rows(std::span<const Symbol> operators, const DTypes& dtypes) {
  Rows rows;
  for (const Symbol& op : operators) {
    append(rows, {{.pattern = chain({op, nn::ReLU})},
                  {.pattern = chain({op, F::relu})},
                  {.pattern = chain({op, fn::relu})},
                  {.pattern = op}});
  }
  return of_two_operands(rows, dtypes);
}

Configs binary_rows(const DTypes& dtypes) {
  Configs table = arithmetic_rows(std::array{op::add, fn::add, op::mul, fn::mul}, dtypes);
  append(table, with_columns({{.pattern = fn::matmul}}, kOwnObserver, dtypes));
  return table;
}

Configs cat_rows(const DTypes& dtypes) {
  return with_columns({{.pattern = fn::cat}}, kSharedObserver, dtypes);
}

Configs share_qparams_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = nn::AdaptiveAvgPool1d},
          {.pattern = nn::AdaptiveAvgPool2d},
          {.pattern = nn::AdaptiveAvgPool3d},
          {.pattern = nn::AvgPool1d},
          {.pattern = nn::AvgPool2d},
          {.pattern = nn::AvgPool3d},
          {.pattern = nn::Hardtanh},
          {.pattern = nn::Identity},
          {.pattern = nn::MaxPool1d},
          {.pattern = nn::MaxPool2d},
          {.pattern = nn::MaxPool3d},
          {.pattern = nn::PixelShuffle},
          {.pattern = nn::PixelUnshuffle},
          {.pattern = nn::ReLU},
          {.pattern = nn::ReLU6},
          {.pattern = F::adaptive_avg_pool1d},
          {.pattern = F::adaptive_avg_pool2d},
          {.pattern = F::adaptive_avg_pool3d},
          {.pattern = F::hardtanh},
          {.pattern = F::hardtanh_},
          {.pattern = F::interpolate},
          {.pattern = F::max_pool1d},
          {.pattern = F::max_pool2d},
          {.pattern = F::max_pool3d},
          {.pattern = F::pixel_shuffle},
          {.pattern = F::pixel_unshuffle},
          {.pattern = F::relu},
          {.pattern = F::relu6},
          {.pattern = F::avg_pool1d},
          {.pattern = F::avg_pool2d},
          {.pattern = F::avg_pool3d},
          {.pattern = fn::clamp},
          {.pattern = fn::flatten},
          {.pattern = fn::mean},
          {.pattern = fn::narrow},
          {.pattern = fn::repeat_interleave},
          {.pattern = fn::transpose},
          {.pattern = fn::squeeze},
          {.pattern = fn::stack},
          {.pattern = fn::unsqueeze},
          {.pattern = op::floordiv},
          {.pattern = method("contiguous")},
          {.pattern = method("clamp")},
          {.pattern = method("detach")},
          {.pattern = method("detach_")},
          {.pattern = method("mean")},
          {.pattern = method("permute")},
          {.pattern = method("repeat")},
          {.pattern = method("repeat_interleave")},
          {.pattern = method("reshape")},
          {.pattern = method("resize_")},
          {.pattern = method("relu")},
          {.pattern = method("relu_")},
          {.pattern = method("squeeze")},
          {.pattern = method("squeeze_")},
          {.pattern = method("transpose")},
          {.pattern = method("unsqueeze")},
          {.pattern = method("unsqueeze_")},
          {.pattern = method("view")},
      },
      kSharedObserver, dtypes);
}

Configs tensor_info_rows(const DTypes& dtypes) {
  return with_columns({{.pattern = method("shape")}, {.pattern = method("size")}}, kNotObserved, dtypes);
}

namespace {

Configs layer_norm_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = nn::LayerNorm},
          {.pattern = F::layer_norm, .inputs = {{"weight", 2}, {"bias", 3}}},
      },
      kOwnObserver, dtypes);
}

Configs default_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = nn::ELU},
          {.pattern = nn::LeakyReLU},
          {.pattern = nn::Hardswish},
          {.pattern = nn::InstanceNorm1d},
          {.pattern = nn::InstanceNorm2d},
          {.pattern = nn::InstanceNorm3d},
          {.pattern = nn::Dropout},
          {.pattern = nn::PReLU},
          {.pattern = F::elu},
          {.pattern = F::hardswish},
          {.pattern = F::leaky_relu},
          {.pattern = F::dropout},
          {.pattern = F::group_norm, .inputs = {{"weight", 2}, {"bias", 3}}},
          {.pattern = F::instance_norm, .inputs = {{"weight", 3}, {"bias", 4}}},
      },
      kOwnObserver, dtypes);
}

Configs fixed_qparams_rows(const DTypes& dtypes) {
  Configs table;
  for (const auto& [name, observer] : kFixedRangeOperators)
    append(table, with_columns({{.pattern = symbol(name)}}, kOwnObserver,
                               with_fixed_range(dtypes, exactly(observer()))));
  return table;
}

Configs batch_norm_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = chain({nn::BatchNorm2d, nn::ReLU}), .fused = nni::BNReLU2d, .fuser = Fuser::Sequential},
          {.pattern = chain({nn::BatchNorm2d, F::relu}), .fused = nni::BNReLU2d, .fuser = Fuser::Sequential},
          {.pattern = nn::BatchNorm2d},
          {.pattern = chain({nn::BatchNorm3d, nn::ReLU}), .fused = nni::BNReLU3d, .fuser = Fuser::Sequential},
          {.pattern = chain({nn::BatchNorm3d, F::relu}), .fused = nni::BNReLU3d, .fuser = Fuser::Sequential},
          {.pattern = nn::BatchNorm3d},
          {.pattern = nni::BNReLU2d},
          {.pattern = nni::BNReLU3d},
      },
      kOwnObserver, dtypes);
}

Configs rnn_rows(const DTypes& dtypes) {
  return with_columns(
      {
          {.pattern = nn::GRUCell, .root = nn::GRUCell, .reference = nnqr::GRUCell},
          {.pattern = nn::LSTMCell, .root = nn::LSTMCell, .reference = nnqr::LSTMCell},
          {.pattern = nn::RNNCell, .root = nn::RNNCell, .reference = nnqr::RNNCell},
          {.pattern = nn::LSTM, .root = nn::LSTM, .reference = nnqr::LSTM},
          {.pattern = nn::GRU, .root = nn::GRU, .reference = nnqr::GRU},
      },
      kOwnObserver, dtypes);
}

Configs embedding_rows(const DTypes& dtypes) {
  return with_columns(joined({module_rows(nn::Embedding, nnqat::Embedding, nnqr::Embedding),
                              module_rows(nn::EmbeddingBag, nnqat::EmbeddingBag, nnqr::EmbeddingBag)}),
                      kOwnObserver, dtypes);
}

}  // namespace

BackendConfig cpu_backend_config(std::string name, const CpuGroups& groups) {
  Configs table;
  for (const Configs& rows :
       {conv_rows(groups.conv), groups.after_conv, linear_rows(groups.linear), groups.after_linear,
        binary_rows(groups.binary), cat_rows(groups.plain), default_rows(groups.plain),
        fixed_qparams_rows(groups.fixed_qparams), share_qparams_rows(groups.plain)})
    append(table, rows);
  if (groups.has_tensor_info) append(table, tensor_info_rows(groups.plain));
  append(table, batch_norm_rows(groups.plain));
  if (groups.has_layer_norm) append(table, layer_norm_rows({kInt8FloatWeight}));
  append(table, rnn_rows(groups.rnn));
  append(table, embedding_rows(groups.embedding));
  return BackendConfig(std::move(name)).set_backend_pattern_configs(std::move(table));
}

}  // namespace tsq
