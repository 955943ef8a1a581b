// A depthwise convolution with AVX-512 VNNI: one instruction adds the products of four rows of the window.
// Rows are interleaved once for each column of the image and read for each column of the window.
#include <immintrin.h>

#include "runtime/kernels/depthwise.h"

namespace tsq::runtime::vnni {
namespace {

constexpr std::int64_t kLargestKernel = 7;
constexpr std::int64_t kTileColumns = 16;  // of the output, so that interleaved columns stay in the L1 cache
constexpr std::int64_t kMostColumns = (kTileColumns - 1) * 2 + kLargestKernel;
constexpr std::int64_t kMostGroups = 2;

/// Four bytes for each of 64 channels.
struct Interleaved {
  __m512i quarters[4];
};

inline Interleaved interleave(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab_low = _mm512_unpacklo_epi8(a, b);
  const __m512i ab_high = _mm512_unpackhi_epi8(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi8(c, d);
  const __m512i cd_high = _mm512_unpackhi_epi8(c, d);
  return {{_mm512_unpacklo_epi16(ab_low, cd_low), _mm512_unpackhi_epi16(ab_low, cd_low),
           _mm512_unpacklo_epi16(ab_high, cd_high), _mm512_unpackhi_epi16(ab_high, cd_high)}};
}

/// Where the groups of four products of a window stand: for each, twice the column, plus 1 for the second
/// group.
template <int kKernel>
constexpr int place_of(int tap) {
  if (kKernel == 3) return tap;
  if (kKernel == 7) return tap;
  constexpr int kPlaces[] = {0, 2, 4, 6, 8, 1, 9};
  return kPlaces[tap];
}
template <int kKernel>
constexpr int kTapsOf = kKernel == 5   ? 7
                        : kKernel == 7 ? 14
                                       : 3;

/// Scales, offsets and bounds of a block of channels. A register has four channels of each 128 bits.
struct Numbers {
  Numbers(const DepthwiseTask& task, const float* scale, const float* offset)
      : low(_mm512_set1_ps(task.low)), high(_mm512_set1_ps(task.high)) {
    for (int q = 0; q < 4; ++q) {
      scales[q] = _mm512_loadu_ps(scale + q * 16);
      offsets[q] = _mm512_loadu_ps(offset + q * 16);
    }
  }

  /// The bytes of 64 channels.
  __m512i rounded(const __m512i* sums) const {
    __m512i whole[4];
    for (int q = 0; q < 4; ++q) {
      const __m512 scaled = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[q]), scales[q], offsets[q]);
      whole[q] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, low), high));
    }
    return _mm512_packus_epi16(_mm512_packs_epi32(whole[0], whole[1]),
                               _mm512_packs_epi32(whole[2], whole[3]));
  }

  __m512 low;
  __m512 high;
  __m512 scales[4];
  __m512 offsets[4];
};

/// One row of the output for one block of channels.
class Row {
 public:
  Row(const DepthwiseTask& task, const DepthwiseWeights& weights, const std::uint8_t* image,
      std::int64_t block, std::int64_t row)
      : task_(task),
        first_(block * kDepthwiseChannels),
        mask_(task.channels - first_ >= kDepthwiseChannels ? ~__mmask64{0}
                                                           : (__mmask64{1} << (task.channels - first_)) - 1),
        padding_(_mm512_set1_epi8(static_cast<char>(task.zero_point))),
        weights_(weights.weights + block * task.taps() * kDepthwiseRows * kDepthwiseChannels),
        scales_(weights.scales + first_),
        offsets_(weights.offsets + first_) {
    for (std::int64_t k = 0; k < task.kernel; ++k) {
      const std::int64_t y = row * task.stride - task.padding_top + k;
      const bool inside = y >= 0 && y < task.input_height;
      rows_[k] = inside ? image + y * task.input_width * task.channels + first_ : nullptr;
    }
  }

  template <int kKernel>
  void write(std::uint8_t* out) {
    const Numbers numbers(task_, scales_, offsets_);
    for (std::int64_t x = 0; x < task_.output_width; x += kTileColumns) {
      const std::int64_t rest = task_.output_width - x;
      const std::int64_t count = rest < kTileColumns ? rest : kTileColumns;
      interleave_columns<kKernel>(x * task_.stride - task_.padding_left,
                                  (count - 1) * task_.stride + kKernel);
      write_positions<kKernel>(count, numbers, out + x * task_.channels + first_);
    }
  }

 private:
  template <int kKernel>
  void interleave_columns(std::int64_t first, std::int64_t count) {
    constexpr int kGroups = (kKernel + 3) / 4;
    const __m512i padding = padding_;
    const __mmask64 mask = mask_;
    for (std::int64_t c = 0; c < count; ++c) {
      const std::int64_t column = first + c;
      const auto at = [&](int k, std::int64_t x) {
        if (k >= kKernel) return _mm512_setzero_si512();
        if (x < 0 || x >= task_.input_width || rows_[k] == nullptr) return padding;
        return _mm512_maskz_loadu_epi8(mask, rows_[k] + x * task_.channels);
      };
      Interleaved* groups = columns_ + c * kGroups;
      groups[0] = interleave(at(0, column), at(1, column), at(2, column), at(3, column));
      if constexpr (kKernel == 5) {
        groups[1] = interleave(at(4, column), at(4, column + 1), at(4, column + 2), at(4, column + 3));
      } else if constexpr (kKernel == 7) {
        groups[1] = interleave(at(4, column), at(5, column), at(6, column), at(7, column));
      }
    }
  }

  /// Two positions at once read each weight once; weights of small windows stay in registers.
  template <int kKernel>
  void write_positions(std::int64_t count, const Numbers& numbers, std::uint8_t* out) const {
    constexpr int kGroups = (kKernel + 3) / 4;
    constexpr int kTaps = kTapsOf<kKernel>;
    const std::int64_t step = task_.stride * kGroups;
    const std::int64_t channels = task_.channels;
    const __mmask64 mask = mask_;
    const std::int8_t* weights = weights_;
    __m512i kept[kKernel == 3 ? kTaps * 4 : 1];
    if constexpr (kKernel == 3) {
      for (int i = 0; i < kTaps * 4; ++i) kept[i] = _mm512_loadu_si512(weights + i * 64);
    }
    const auto weight = [&](int index) {
      if constexpr (kKernel == 3) return kept[index];
      return _mm512_loadu_si512(weights + index * 64);
    };
    std::int64_t i = 0;
    for (; kKernel > 3 && i + 2 <= count; i += 2) {
      const Interleaved* window = columns_ + i * step;
      __m512i sums[2][4] = {};
#pragma GCC unroll 16
      for (int tap = 0; tap < kTaps; ++tap) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          const __m512i both = weight(tap * 4 + q);
          sums[0][q] = _mm512_dpbusd_epi32(sums[0][q], window[place_of<kKernel>(tap)].quarters[q], both);
          sums[1][q] =
              _mm512_dpbusd_epi32(sums[1][q], window[step + place_of<kKernel>(tap)].quarters[q], both);
        }
      }
      _mm512_mask_storeu_epi8(out + i * channels, mask, numbers.rounded(sums[0]));
      _mm512_mask_storeu_epi8(out + (i + 1) * channels, mask, numbers.rounded(sums[1]));
    }
    for (; i < count; ++i) {
      const Interleaved* window = columns_ + i * step;
      __m512i sums[4] = {};
#pragma GCC unroll 16
      for (int tap = 0; tap < kTaps; ++tap) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          sums[q] =
              _mm512_dpbusd_epi32(sums[q], window[place_of<kKernel>(tap)].quarters[q], weight(tap * 4 + q));
        }
      }
      _mm512_mask_storeu_epi8(out + i * channels, mask, numbers.rounded(sums));
    }
  }

  const DepthwiseTask& task_;
  std::int64_t first_;
  __mmask64 mask_;
  __m512i padding_;
  const std::int8_t* weights_;
  const float* scales_;
  const float* offsets_;
  const std::uint8_t* rows_[kMostGroups * kDepthwiseRows] = {};
  Interleaved columns_[kMostColumns * kMostGroups];
};

}  // namespace

void depthwise(const DepthwiseTask& task, const DepthwiseWeights& weights, void* out, const void* in,
               std::int64_t begin, std::int64_t end) {
  const std::int64_t blocks = (task.channels + kDepthwiseChannels - 1) / kDepthwiseChannels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t line = unit / blocks;
    const std::int64_t image = line / task.output_height;
    const auto* from =
        static_cast<const std::uint8_t*>(in) + image * task.input_height * task.input_width * task.channels;
    auto* to = static_cast<std::uint8_t*>(out) + line * task.output_width * task.channels;
    Row row(task, weights, from, unit % blocks, line % task.output_height);
    if (task.kernel == 3) row.write<3>(to);
    if (task.kernel == 5) row.write<5>(to);
    if (task.kernel == 7) row.write<7>(to);
  }
}

}  // namespace tsq::runtime::vnni
