#pragma once

#include <string>
#include <string_view>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// The program as JSON on one line; members that have their defaults are left out.
std::string to_json(const Program& program);

/// Reads what `to_json` writes. Throws ProgramError for a version, name or member that this library does not
/// know.
Program program_from_json(std::string_view text);

}  // namespace tsq::runtime
