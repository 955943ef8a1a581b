#pragma once

#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/compiled_program.h"

namespace tsq::runtime {

/// Compiled programs by shapes and count of threads, the least recently used dropped beyond `capacity`. A
/// program is built outside of the lock: threads that want tensors of other shapes do not wait for it, those
/// that want the same do.
class ProgramCache {
 public:
  using Key = std::vector<std::int64_t>;
  using Built = std::shared_ptr<const CompiledProgram>;

  explicit ProgramCache(std::size_t capacity) : capacity_(capacity) {}

  /// Of those of this key, which differ in integers of the call, the one that `fits`; else what `build`
  /// returns.
  Built get(std::span<const std::int64_t> key, const std::function<bool(const Built&)>& fits,
            const std::function<Built()>& build);
  [[nodiscard]] std::size_t size() const;
  /// Frees what its programs keep for later calls. Returns how many bytes that were.
  std::int64_t free_idle_arenas() const;

  /// The keys of the programs that are there, once: when as many as there are have been dropped after a
  /// single call, and building them has gained nothing.
  [[nodiscard]] std::vector<Key> keys_if_useless();

 private:
  struct Entry {
    Key key;
    std::shared_future<Built> program;
    std::size_t number;  ///< how many have been built before it
    std::size_t calls = 1;
  };
  using Entries = std::list<Entry>;

  [[nodiscard]] Entries::iterator fitting(std::span<const std::int64_t> key,
                                          const std::function<bool(const Built&)>& fits);
  void drop_oldest();
  void forget(std::size_t number);

  std::size_t capacity_;
  mutable std::mutex mutex_{};
  Entries entries_{};  ///< the one used last comes first
  std::size_t built_ = 0;
  std::size_t used_once_ = 0;  ///< of those that have been dropped
  bool has_told_ = false;
};

}  // namespace tsq::runtime
