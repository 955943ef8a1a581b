#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tsq::io {

/// What is wrong with a pickle, to follow "'x.pt': its record 'data.pkl' ".
struct PickleFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A storage that a pickle names: its record holds at least this many bytes.
struct PickledStorage {
  std::string key{};
  std::int64_t bytes{0};
};

/// What LibTorch makes of a pickle, found without making it.
struct PickleFacts {
  std::vector<PickledStorage> storages{};  ///< one for each time that LibTorch would read it
  std::int64_t tensors{0};  ///< bytes that all tensors have when none of their elements are shared
  bool is_whole{false};     ///< to its end; otherwise LibTorch refuses it where the walk has ended
};

/// The most values that a pickle may hold, counted as often as they are reached, and how deep they may nest:
/// what reads them afterwards visits each, by recursion. What holds others takes several times the memory and
/// counts as so many.
inline constexpr std::int64_t kMostPickledValues = 10'000'000;
inline constexpr std::int64_t kPickledContainer = 5;
inline constexpr int kDeepestPickle = 256;

/// Walks over the opcodes of a pickle as torch::jit::Unpickler does, which trusts them: that marks lie on its
/// stack, that tensors lie within their storages and that lists do not hold themselves. Throws PickleFault
/// where it would read or write what is not there, or where what it makes could not be visited. Safe for any
/// bytes; memory and time grow linearly with them.
PickleFacts walk_pickle(std::string_view bytes);

/// The same for the record of source positions that belongs to a file of TorchScript code, which LibTorch
/// reads when it first shows one. Throws PickleFault also where one lies outside of its text.
void check_source_positions(std::string_view bytes);

}  // namespace tsq::io
