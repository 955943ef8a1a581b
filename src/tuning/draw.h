#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tuning/kernel_call.h"
#include "tuning/random_tensors.h"

/// Random calls of kernels, whose sizes are drawn from distributions that are wider than what networks have.
namespace tsq::tuning {

/// The same numbers on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {}
  /// 0 to 1.
  double share();
  std::int64_t between(std::int64_t least, std::int64_t most);
  /// Each order of magnitude as often as another.
  std::int64_t size(double least, double most);
  /// Most are multiples of 8, 16 or 32.
  std::int64_t channels(std::int64_t least, std::int64_t most);
  /// Of what comes into a network.
  std::int64_t image_channels() { return one_of<std::int64_t>({1, 2, 3, 3, 3, 4}); }
  /// Once in ten a few, as at the end of a network, else 8 and more.
  std::int64_t channels_out(std::int64_t most);
  /// Channels of a group: three in four are multiples of 8.
  std::int64_t group_width();
  /// Of an image with that many positions: three in four are squares.
  std::int64_t height(std::int64_t positions);
  /// Height and width, alike.
  std::pair<std::int64_t, std::int64_t> image(double least, double most);
  bool once_in(std::int64_t times) { return between(1, times) == 1; }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + between(0, static_cast<std::int64_t>(choices.size()) - 1));
  }

 private:
  std::mt19937_64 generator_;
};

/// A kind of kernel of which calls are drawn.
struct DrawnKernel {
  std::string_view name;  ///< of the operator, with its overload
  bool of_engine;         ///< whether each engine of LibTorch has its own
  KernelCall (*call)(Draw& draw, const DrawnKernel& kernel);
  int calls{64};  ///< that are measured, for a fit
};

/// All operators of LibTorch that are measured.
std::span<const DrawnKernel> drawn_layers();
std::span<const DrawnKernel> drawn_operators();

}  // namespace tsq::tuning
