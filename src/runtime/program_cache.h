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

/// Compiled programs by shapes, integers and count of threads, the least recently used dropped beyond
/// `capacity`. A program is built outside of the lock: threads that want another one do not wait for it,
/// those that want the same one do.
class ProgramCache {
 public:
  using Key = std::vector<std::int64_t>;
  using Built = std::shared_ptr<const CompiledProgram>;

  explicit ProgramCache(std::size_t capacity) : capacity_(capacity) {}

  Built get(std::span<const std::int64_t> key, const std::function<Built()>& build);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    Key key;
    std::shared_future<Built> program;
  };
  void forget(std::span<const std::int64_t> key);

  std::size_t capacity_;
  mutable std::mutex mutex_{};
  std::list<Entry> entries_{};  ///< the one used last comes first
};

}  // namespace tsq::runtime
