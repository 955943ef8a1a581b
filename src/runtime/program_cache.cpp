#include "runtime/program_cache.h"

#include <algorithm>
#include <optional>

namespace tsq::runtime {

ProgramCache::Built ProgramCache::get(std::span<const std::int64_t> key,
                                      const std::function<Built()>& build) {
  std::optional<std::promise<Built>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return std::ranges::equal(entry.key, key); });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      const auto program = found->program;
      lock.unlock();
      return program.get();
    }
    entries_.push_front({Key(key.begin(), key.end()), promise.emplace().get_future().share()});
    if (entries_.size() > capacity_) entries_.pop_back();
  }
  try {
    auto program = build();
    promise->set_value(program);
    return program;
  } catch (...) {
    forget(key);
    promise->set_exception(std::current_exception());
    throw;
  }
}

void ProgramCache::forget(std::span<const std::int64_t> key) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return std::ranges::equal(entry.key, key); });
}

std::size_t ProgramCache::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace tsq::runtime
