#pragma once

#include <c10/core/QEngine.h>
#include <tsq/recipe_options.h>

#include <nlohmann/json_fwd.hpp>

namespace tsq::kernels {

/// Which faults of kernels this processor shows: LibTorch's kernels are other ones on other processors. By
/// default all of them, which no processor exceeds.
struct ProcessorFaults {
  bool onednn_transposed_channels{true};  ///< FaultCondition::TransposedChannelsDiffer
  bool fbgemm_transposed_rows{true};      ///< FaultCondition::TransposedDirectPath

  [[nodiscard]] nlohmann::json to_json() const;
};

/// For the processor at hand, tried once in a process for each engine, with a hold of that engine; of kernels
/// that it does not take, and for a processor that is named, nothing is tried, and all faults count. Safe to
/// call from several threads.
ProcessorFaults processor_faults(TargetCpu cpu, at::QEngine engine);

}  // namespace tsq::kernels
