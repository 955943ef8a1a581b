#pragma once

#include <array>
#include <string_view>

#include "config/observers.h"

namespace tsq {

/// An operator whose output range is known beforehand: the kernels have it built in.
struct FixedRangeOperator {
  std::string_view name;
  ObserverSpec (*observer)();
};

/// Source: _FIXED_QPARAMS_OP_TO_OBSERVER in qconfig_mapping.py.
inline constexpr std::array kFixedRangeOperators{
    FixedRangeOperator{"torch.nn.Hardsigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"torch.nn.functional.hardsigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"hardsigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"hardsigmoid_", observers::fixed_0_to_1},
    FixedRangeOperator{"torch.nn.Sigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"torch.sigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"sigmoid", observers::fixed_0_to_1},
    FixedRangeOperator{"sigmoid_", observers::fixed_0_to_1},
    FixedRangeOperator{"torch.nn.Softmax", observers::fixed_0_to_1},
    FixedRangeOperator{"torch.nn.Tanh", observers::fixed_neg_1_to_1},
    FixedRangeOperator{"torch.tanh", observers::fixed_neg_1_to_1},
    FixedRangeOperator{"tanh", observers::fixed_neg_1_to_1},
    FixedRangeOperator{"tanh_", observers::fixed_neg_1_to_1},
};

}  // namespace tsq
