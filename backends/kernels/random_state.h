#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

namespace tsq::kernels {

/// The same random numbers in each scope of this kind: LibTorch's generator for the CPU, which is one for the
/// process, begins at `seed`, and goes on as before afterwards. Scopes of several threads wait for each
/// other. Taken inside of an EnginePacking and never around one: who has the generator waits for nobody.
class [[nodiscard]] RandomState {
 public:
  explicit RandomState(uint64_t seed);
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;
  ~RandomState();

 private:
  std::unique_lock<std::recursive_mutex> owner_;
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace tsq::kernels
