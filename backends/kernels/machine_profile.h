#pragma once

#include <tsq/machine_profile.h>

#include <optional>

#include "backends/kernels/kernel_work.h"
#include "backends/kernels/target.h"

namespace tsq::kernels {

/// Nanoseconds of one call: as it was measured at just these sizes, or else predicted. None for kernels that
/// the profile does not know. With more threads than the profile has, those of the most that it has.
[[nodiscard]] std::optional<double> nanoseconds(const MachineProfile& profile, const Kernel& kernel,
                                                const KernelWork& work);

/// What kernels take on the target: its own profile, or the one of processors like its own.
[[nodiscard]] std::shared_ptr<const MachineProfile> profile_of(const Target& target);

/// The sizes by their names, those that are not as in no work alone.
[[nodiscard]] std::map<std::string, double> sizes_of(const KernelWork& work);
/// "x86 quantized::conv2d".
[[nodiscard]] std::string name_of(const Kernel& kernel);

}  // namespace tsq::kernels
