#include "runtime/primitives/packed_weights.h"

#include <cstdlib>
#include <string>

#include "runtime/program/error.h"

namespace tsq::runtime {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::shared_ptr<void> aligned_memory(std::size_t bytes) {
  constexpr std::size_t kBoundary = 64;
  const auto rounded = (bytes / kBoundary + 1) * kBoundary;
  void* memory = std::aligned_alloc(kBoundary, rounded);
  if (memory == nullptr) {
    throw ProgramError("the call", std::to_string(bytes) + " bytes of memory are not to be had",
                       "call the program with smaller tensors, or free some");
  }
  return {memory, [](void* pointer) { std::free(pointer); }};
}

std::shared_ptr<const void> PackedWeights::find(const void* plain, const dnnl::memory::desc& layout) const {
  for (const auto& entry : entries_) {
    if (entry.plain.get() == plain && entry.layout == layout) return entry.packed;
  }
  return nullptr;
}

std::shared_ptr<const void> PackedWeights::get(std::shared_ptr<const void> plain,
                                               const dnnl::memory::desc& layout,
                                               const std::function<void(void* packed)>& pack) {
  {
    const std::scoped_lock lock(mutex_);
    if (auto packed = find(plain.get(), layout)) return packed;
  }
  auto memory = aligned_memory(layout.get_size());
  pack(memory.get());
  const std::scoped_lock lock(mutex_);
  if (auto packed = find(plain.get(), layout)) return packed;  // another thread was first
  // Parts of weights that depend on the sizes of a call are new for each of them.
  constexpr std::size_t kKeptBytes = std::size_t{1} << 28;
  const auto is_unused = [](const Entry& entry) { return entry.packed.use_count() == 1; };
  std::size_t unused = 0;
  for (const auto& entry : entries_) unused += is_unused(entry) ? entry.layout.get_size() : 0;
  if (unused > kKeptBytes) std::erase_if(entries_, is_unused);
  entries_.push_back({std::move(plain), layout, memory});
  return memory;
}

std::shared_ptr<const void> PackedWeights::get(std::shared_ptr<const void> plain,
                                               const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  // oneDNN's own type has no constant memory; the reorder only reads it.
  dnnl::memory source(from, cpu_engine(), const_cast<void*>(plain.get()));
  return get(std::move(plain), to, [&](void* packed) {
    dnnl::stream stream(cpu_engine());
    dnnl::memory target(to, cpu_engine(), packed);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  });
}

std::shared_ptr<const void> PackedWeights::get(std::shared_ptr<const void> plain,
                                               dnnl::memory::data_type numbers, std::int64_t bytes,
                                               const std::function<void(void* packed)>& pack) {
  // oneDNN's layouts of weights have two dimensions or more.
  const auto size = static_cast<std::int64_t>(dnnl::memory::data_type_size(numbers));
  const dnnl::memory::desc layout({bytes / size}, numbers, dnnl::memory::format_tag::x);
  return get(std::move(plain), layout, pack);
}

std::size_t PackedWeights::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace tsq::runtime
