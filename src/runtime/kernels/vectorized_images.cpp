// Compiled once for each instruction set, into the namespace TSQ_RUNTIME_ISA: plain loops that the compiler
// vectorizes. No function of a header that is not inlined here may be called: the linker would keep one
// instruction set's copy of it for all.
#include "runtime/kernels/vectorized_functions.h"
#include "runtime/kernels/vectorized_numbers.h"

namespace tsq::runtime::TSQ_RUNTIME_ISA {

void resize_nearest(const ResizeNearestTask& task, void* out, const void* in, std::int64_t begin,
                    std::int64_t end) {
  const auto positions = static_cast<std::int64_t>(task.sources.size());
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t source = unit / positions * task.input_positions + task.sources[unit % positions];
    std::memcpy(static_cast<char*>(out) + unit * task.bytes,
                static_cast<const char*>(in) + source * task.bytes, static_cast<std::size_t>(task.bytes));
  }
}

void resize_bilinear(const ResizeBilinearTask& task, void* out, const void* in, std::int64_t begin,
                     std::int64_t end) {
  const auto height = static_cast<std::int64_t>(task.rows.size());
  const auto width = static_cast<std::int64_t>(task.columns.size());
  const std::int64_t channels = task.channels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const Taps& row = task.rows[unit % height];
    const std::int64_t image = unit / height * task.input_height * task.input_width;
    for (std::int64_t x = 0; x < width; ++x) {
      const Taps& column = task.columns[x];
      const auto at = [&](std::int32_t y_tap, std::int32_t x_tap) {
        return (image + y_tap * task.input_width + x_tap) * channels;
      };
      const std::int64_t corners[4] = {at(row.first, column.first), at(row.first, column.second),
                                       at(row.second, column.first), at(row.second, column.second)};
      for (std::int64_t done = 0; done < channels; done += kChunk) {
        const std::int64_t part = smaller(kChunk, channels - done);
        float taps[4][kChunk];
        for (int corner = 0; corner < 4; ++corner) {
          load(task.from, in, corners[corner] + done, 1, part, taps[corner]);
        }
        for (std::int64_t i = 0; i < part; ++i) {
          const float upper = taps[0][i] + (taps[1][i] - taps[0][i]) * column.weight;
          const float lower = taps[2][i] + (taps[3][i] - taps[2][i]) * column.weight;
          taps[0][i] = upper + (lower - upper) * row.weight;
        }
        store(task.to, out, (unit * width + x) * channels + done, 1, part, taps[0]);
      }
    }
  }
}

}  // namespace tsq::runtime::TSQ_RUNTIME_ISA
