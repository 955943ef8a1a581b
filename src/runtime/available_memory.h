#pragma once

#include <cstdint>
#include <filesystem>

/// How much memory a call may need.
namespace tsq::runtime {

/// Bytes that this process can still get: what the machine has available, less where its control groups
/// (version 1 or 2) or its own limit of address space leave less, and what its allocator keeps for it. The
/// largest number where the system does not say. `root` holds /proc and /sys.
std::int64_t available_memory(const std::filesystem::path& root = "/");

/// Calls that need more bytes than this are refused, in the whole process. 0, the default: 80 % of what is
/// available when a call with new shapes comes, and never less than 64 MiB.
void set_memory_limit(std::int64_t bytes);

/// The bytes that a call may need now.
std::int64_t memory_limit();

}  // namespace tsq::runtime
