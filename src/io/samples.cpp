#include "pipeline/samples.h"

#include <ATen/ATen.h>

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

std::size_t bytes_of(const std::vector<Sample>& samples) {
  std::size_t bytes = 0;
  for (const Sample& sample : samples) {
    for (const at::IValue& value : sample) bytes += bytes_of(value);
  }
  return bytes;
}

}  // namespace

Sample copy_of(const Sample& sample) {
  Sample copy;
  for (const at::IValue& value : sample) copy.push_back(value.deepcopy());
  return copy;
}

std::vector<Sample> spread(std::span<const Sample> samples, std::size_t most) {
  if (samples.size() <= most) return {samples.begin(), samples.end()};
  std::vector<Sample> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(samples[i * samples.size() / most]);
  return some;
}

void KeptSamples::add(const Sample& sample) {
  if (seen_++ % step_ != 0) return;
  samples_.push_back(copy_of(sample));
  while (samples_.size() > kMostSamples || (samples_.size() > 2 && bytes_of(samples_) > kMostBytes))
    keep_every_other();
}

void KeptSamples::keep_every_other() {
  step_ *= 2;
  for (std::size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
  samples_.resize((samples_.size() + 1) / 2);
}

}  // namespace tsq::detail
