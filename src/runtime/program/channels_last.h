#pragma once

#include <vector>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// Values whose channels lie last in memory: those that convolutions, pools and resizes read or write, and
/// what is elementwise between them.
std::vector<bool> channels_last_values(const Program& program, const std::vector<Shape>& shapes);

}  // namespace tsq::runtime
