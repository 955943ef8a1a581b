#pragma once

#include <cstddef>
#include <functional>

namespace tsq {

/// The progress of long work: called after each part with the number of parts that are done, possibly from
/// several threads, but never by two at once. To cancel the work, throw: what a function that a program hands
/// to the library throws, of whatever type, is thrown by the call that it was handed to, as it is. That holds
/// for progress, events and scores alike, and nothing is left half done but the value that was worked on (a
/// Prepared that is being calibrated).
using Progress = std::function<void(std::size_t done, std::size_t total)>;

}  // namespace tsq
