#pragma once

#include <dnnl.hpp>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

/// Weights in the layouts that kernels want: made once, shared by every shape, count of threads and thread.
namespace tsq::runtime {

/// oneDNN's engine of the processor.
const dnnl::engine& cpu_engine();

class PackedWeights {
 public:
  /// `plain`, which is described by `from`, as `to`. Packs outside of the lock.
  std::shared_ptr<const void> get(std::shared_ptr<const void> plain, const dnnl::memory::desc& from,
                                  const dnnl::memory::desc& to);
  /// `plain` in a layout of our own, `bytes` bytes of such numbers, which `pack` writes.
  std::shared_ptr<const void> get(std::shared_ptr<const void> plain, dnnl::memory::data_type numbers,
                                  std::int64_t bytes, const std::function<void(void* packed)>& pack);
  /// How many layouts of weights are held.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const void> plain;
    dnnl::memory::desc layout;
    std::shared_ptr<const void> packed;
  };
  std::shared_ptr<const void> get(std::shared_ptr<const void> plain, const dnnl::memory::desc& layout,
                                  const std::function<void(void* packed)>& pack);
  std::shared_ptr<const void> find(const void* plain, const dnnl::memory::desc& layout) const;

  mutable std::mutex mutex_{};
  std::list<Entry> entries_{};
};

/// Memory on a boundary of 64 bytes.
std::shared_ptr<void> aligned_memory(std::size_t bytes);

}  // namespace tsq::runtime
