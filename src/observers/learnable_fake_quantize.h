#pragma once

#include <string>

#include "observers/observer_class.h"

namespace tsq {

inline constexpr const char* kLearnableFakeQuantize = "_LearnableFakeQuantize";

/// torch/ao/quantization/_learnable_fake_quantize.py: scale and zero point are parameters, which the observer
/// sets until enable_param_learning() lets them learn (QT-62). Defines everything but what is asked of the
/// observer inside, `activation_post_process`, whose qparams `observed_qparams(self)` returns. Methods that
/// return the module in PyTorch return nothing.
std::string learnable_source(bool is_per_channel, bool is_symmetric, bool scales_gradients);

/// Its parameters and buffers, for as many channels.
ObserverState learnable_state(int64_t channels);

}  // namespace tsq
