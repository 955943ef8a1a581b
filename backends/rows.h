#pragma once

#include <tsq/backend_config.h>

#include <array>
#include <span>

#include "backends/dtypes.h"
#include "backends/symbols.h"

/// Groups of rows that several tables share. Source:
/// torch/ao/quantization/backend_config/_common_operator_config_utils.py.
namespace tsq {

/// A BackendPatternConfig with short column names, so that one row is one line. What the rows of a group
/// share is added by `with_columns`.
struct Row {
  Pattern pattern{};
  std::optional<Symbol> root{};
  std::optional<Symbol> qat{};
  std::optional<Symbol> reference{};
  std::optional<Symbol> fused{};
  std::optional<Fuser> fuser{};
  std::map<std::string, int> inputs{};  ///< input_type_to_index
};
using Rows = std::vector<Row>;
using Configs = std::vector<BackendPatternConfig>;

/// OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT and the two other types, in the words of a table.
inline constexpr ObservationType kOwnObserver = ObservationType::OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT;
inline constexpr ObservationType kSharedObserver = ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT;
inline constexpr ObservationType kNotObserved = ObservationType::INPUT_OUTPUT_NOT_OBSERVED;

Rows joined(const std::vector<Rows>& parts);
/// A module and its form for training, which have one root and one reference module.
Rows module_rows(Symbol root, Symbol qat, Symbol reference);

Configs with_columns(const Rows& rows, ObservationType observation, const DTypes& dtypes);

/// The names of one dimension of convolution.
struct ConvFamily {
  Symbol conv, transpose, bn, reference, transpose_reference, conv_relu, conv_bn, conv_bn_relu, qat, relu_qat,
      bn_qat, bn_relu_qat, functional, functional_transpose;
};
/// That of 1, 2 or 3 dimensions.
const ConvFamily& conv_family(std::size_t dims);

/// Convolution, with ReLU and batch norm, as module, fused module and function.
Rows conv_family_rows(const ConvFamily& family);

/// Rows of operators of two operands; with one tensor operand the other is a number, and the output has the
/// input's observer.
Configs of_two_operands(const Rows& rows, const DTypes& dtypes);
/// Such an operator and its ReLU.
Configs arithmetic_rows(std::span<const Symbol> operators, const DTypes& dtypes);

/// nn.Linear, its form for training, and the function.
Rows linear_alone_rows();

Configs conv_rows(const DTypes& dtypes);
Configs linear_rows(const DTypes& dtypes);
Configs binary_rows(const DTypes& dtypes);
Configs cat_rows(const DTypes& dtypes);
Configs share_qparams_rows(const DTypes& dtypes);
Configs tensor_info_rows(const DTypes& dtypes);

/// What a table of PyTorch's for CPUs says of each group of rows.
struct CpuGroups {
  DTypes conv{kWeightedInt8};
  Configs after_conv{};
  DTypes linear{kWeightedInt8, kDynamicInt8, kDynamicFloat16};
  Configs after_linear{};
  DTypes binary{kInt8};
  DTypes fixed_qparams{kInt8};
  DTypes plain{kInt8};  ///< of all other operators without a weight
  bool has_tensor_info{true};
  bool has_layer_norm{false};
  DTypes rnn{kDynamicInt8, kDynamicFloat16};
  DTypes embedding{kWeightOnlyQUInt8, kWeightOnlyQUInt4x2};
};
BackendConfig cpu_backend_config(std::string name, const CpuGroups& groups);

}  // namespace tsq
