#include "io/samples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <ranges>
#include <string_view>

#include "base/mapped.h"

namespace tsq::detail {
namespace {

constexpr std::size_t kMostSamples = 32;
constexpr std::size_t kMostBytes = std::size_t{128} << 20U;

std::size_t bytes_of(const at::IValue& value) {
  at::IValue::HashAliasedIValues parts;
  value.getSubValues(parts);
  std::size_t bytes = 0;
  for (const at::IValue& part : parts) bytes += part.isTensor() ? part.toTensor().nbytes() : 0;
  return bytes;
}

/// Elements of tensors, then whole numbers.
std::pair<std::int64_t, std::int64_t> length_of(const Sample& sample) {
  std::pair<std::int64_t, std::int64_t> length{};
  for (const at::IValue& value : sample) {
    at::IValue::HashAliasedIValues parts;
    value.getSubValues(parts);
    parts.insert(value);
    for (const at::IValue& part : parts) {
      if (part.isTensor() && part.toTensor().defined()) length.first += part.toTensor().numel();
      if (part.isInt()) length.second += part.toInt();
    }
  }
  return length;
}

std::size_t bytes_of(const std::vector<Sample>& samples) {
  std::size_t bytes = 0;
  for (const Sample& sample : samples) {
    for (const at::IValue& value : sample) bytes += bytes_of(value);
  }
  return bytes;
}

/// Mixes words of eight bytes (the finalizer of splitmix64).
class Hash {
 public:
  void add(std::uint64_t word) {
    state_ += kStep;
    state_ ^= word;
    state_ = (state_ ^ (state_ >> 30U)) * 0xbf58476d1ce4e5b9U;
    state_ = (state_ ^ (state_ >> 27U)) * 0x94d049bb133111ebU;
    state_ ^= state_ >> 31U;
  }

  void add_bytes(const void* data, std::size_t count) {
    const auto* bytes = static_cast<const char*>(data);
    add(count);
    for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min(sizeof(word), count - i));
      add(word);
    }
  }

  void add_text(std::string_view text) { add_bytes(text.data(), text.size()); }

  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  std::uint64_t state_{0};
};

void add_tensor(const at::Tensor& tensor, Hash& hash) {
  if (!tensor.defined()) return;
  hash.add(static_cast<std::uint64_t>(tensor.scalar_type()));
  for (const int64_t size : tensor.sizes()) hash.add(static_cast<std::uint64_t>(size));
  if (tensor.layout() == at::kSparse) {
    add_tensor(tensor._indices(), hash);
    add_tensor(tensor._values(), hash);
    return;
  }
  if (tensor.layout() != at::kStrided) return add_tensor(tensor.to_dense(), hash);
  const at::Tensor values = tensor.detach().cpu().contiguous();
  hash.add_bytes(values.const_data_ptr(), values.nbytes());
}

void add_value(const at::IValue& value, Hash& hash) {
  hash.add_text(value.tagKind());
  if (value.isTensor()) {
    add_tensor(value.toTensor(), hash);
  } else if (value.isInt()) {
    hash.add(static_cast<std::uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    hash.add(value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    hash.add(std::bit_cast<std::uint64_t>(value.toDouble()));
  } else if (value.isString()) {
    hash.add_text(value.toStringRef());
  } else if (value.isTuple()) {
    for (const at::IValue& element : value.toTupleRef().elements()) add_value(element, hash);
  } else if (value.isList()) {
    for (const at::IValue& element : value.toListRef()) add_value(element, hash);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      add_value(entry.key(), hash);
      add_value(entry.value(), hash);
    }
  } else if (value.isObject()) {
    for (const at::IValue& slot : value.toObjectRef().slots()) add_value(slot, hash);
  }
}

}  // namespace

Sample copy_of(const Sample& sample) {
  return mapped(sample, [](const at::IValue& value) { return value.deepcopy(); });
}

const Sample& longest(std::span<const Sample> samples) {
  return *std::ranges::max_element(samples, {}, length_of);
}

std::vector<Sample> spread(std::span<const Sample> samples, std::size_t most) {
  if (samples.size() <= most) return {samples.begin(), samples.end()};
  return mapped(std::views::iota(std::size_t{0}, most),
                [&](std::size_t i) { return samples[i * samples.size() / most]; });
}

std::vector<Sample> some_for(bool keeps_state, std::span<const Sample> samples, std::size_t most) {
  if (!keeps_state) return spread(samples, most);
  const auto first = samples.first(std::min(samples.size(), most));
  return {first.begin(), first.end()};
}

std::size_t size_of_last_part(std::size_t samples) {
  constexpr std::size_t kParts = 4;
  return samples < 2 ? 0 : (samples + kParts - 1) / kParts;
}

std::uint64_t hash_of(const Sample& sample) {
  Hash hash;
  for (const at::IValue& value : sample) add_value(value, hash);
  return hash.value();
}

/// What is dropped once would be dropped again: more samples only push it further back.
void KeptSamples::add(const Sample& sample) {
  const std::uint64_t hash = hash_of(sample);
  const auto place = std::ranges::lower_bound(hashes_, hash);
  const bool is_last = place == hashes_.end();
  if ((!is_last && *place == hash) || (is_last && samples_.size() == kMostSamples)) return;
  samples_.insert(samples_.begin() + (place - hashes_.begin()), copy_of(sample));
  hashes_.insert(place, hash);
  while (are_too_many()) {
    samples_.pop_back();
    hashes_.pop_back();
  }
}

void KeptSamples::add_next(const Sample& sample) {
  if (is_full_) return;
  samples_.push_back(copy_of(sample));
  is_full_ = are_too_many();
  if (is_full_) samples_.pop_back();
}

bool KeptSamples::are_too_many() const {
  return samples_.size() > kMostSamples || (samples_.size() > 2 && bytes_of(samples_) > kMostBytes);
}

}  // namespace tsq::detail
