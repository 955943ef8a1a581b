#include "runtime/program_cache.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace tsq::runtime {
namespace {

bool is_ready(const std::shared_future<ProgramCache::Built>& program) {
  return program.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// None if building it has failed.
std::optional<ProgramCache::Built> built(const std::shared_future<ProgramCache::Built>& program) {
  try {
    return program.get();
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace

/// One that is being built may fit: it is found, too.
ProgramCache::Entries::iterator ProgramCache::fitting(std::span<const std::int64_t> key,
                                                      const std::function<bool(const Built&)>& fits) {
  return std::ranges::find_if(entries_, [&](const Entry& entry) {
    return std::ranges::equal(entry.key, key) && (!is_ready(entry.program) || fits(entry.program.get()));
  });
}

ProgramCache::Built ProgramCache::get(std::span<const std::int64_t> key,
                                      const std::function<bool(const Built&)>& fits,
                                      const std::function<Built()>& build) {
  std::optional<std::promise<Built>> promise;  // it allocates, which a call that finds its program does not
  std::size_t number = 0;
  while (true) {
    std::unique_lock lock(mutex_);
    const auto found = fitting(key, fits);
    if (found == entries_.end()) {
      number = built_++;
      entries_.push_front({Key(key.begin(), key.end()), promise.emplace().get_future().share(), number});
      if (entries_.size() > capacity_) drop_oldest();
      break;
    }
    entries_.splice(entries_.begin(), entries_, found);
    ++found->calls;
    const auto program = found->program;
    lock.unlock();
    // What makes another call fail, an index for example, need not be wrong in this one.
    if (auto waited_for = built(program); waited_for && fits(*waited_for)) return *waited_for;
  }
  try {
    auto program = build();
    promise->set_value(program);
    return program;
  } catch (...) {
    forget(number);
    promise->set_exception(std::current_exception());
    throw;
  }
}

void ProgramCache::drop_oldest() {
  if (entries_.back().calls == 1) ++used_once_;
  entries_.pop_back();
}

void ProgramCache::forget(std::size_t number) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.number == number; });
}

std::vector<ProgramCache::Key> ProgramCache::keys_if_useless() {
  const std::scoped_lock lock(mutex_);
  if (has_told_ || used_once_ < capacity_) return {};
  has_told_ = true;
  std::vector<Key> keys;
  for (const auto& entry : entries_) keys.push_back(entry.key);
  return keys;
}

std::int64_t ProgramCache::free_idle_arenas() const {
  const std::scoped_lock lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& entry : entries_) {
    if (!is_ready(entry.program)) continue;
    if (const auto program = built(entry.program)) bytes += (*program)->free_idle_arenas();
  }
  return bytes;
}

std::size_t ProgramCache::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace tsq::runtime
