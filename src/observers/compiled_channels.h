#pragma once

#include <memory>

#include "observers/compiled_observer.h"

namespace tsq {

/// The compiled form of ChannelStatisticsObserver.
std::unique_ptr<CompiledObserver> compiled_channels(const torch::jit::Module& observer);

}  // namespace tsq
