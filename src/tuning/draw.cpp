#include "tuning/draw.h"

#include <algorithm>
#include <cmath>

namespace tsq::tuning {

double Draw::share() { return static_cast<double>(generator_() >> 11U) * 0x1p-53; }

std::int64_t Draw::between(std::int64_t least, std::int64_t most) {
  const auto span = static_cast<double>(most - least + 1);
  return std::min(most, least + static_cast<std::int64_t>(share() * span));
}

std::int64_t Draw::size(double least, double most) {
  return static_cast<std::int64_t>(std::llround(least * std::pow(most / least, share())));
}

std::int64_t Draw::channels(std::int64_t least, std::int64_t most) {
  const std::int64_t drawn = size(static_cast<double>(least), static_cast<double>(most));
  const auto multiple = one_of<std::int64_t>({1, 4, 8, 8, 16, 16, 32, 32, 64});
  return std::clamp((drawn + multiple / 2) / multiple * multiple, least, most);
}

std::int64_t Draw::channels_out(std::int64_t most) { return once_in(10) ? between(1, 7) : channels(8, most); }

std::int64_t Draw::group_width() { return once_in(4) ? size(2, 64) : 8 * between(1, 8); }

std::int64_t Draw::height(std::int64_t positions) {
  const auto most = static_cast<double>(positions);
  if (!once_in(4)) return std::max<std::int64_t>(1, std::llround(std::sqrt(most)));
  return std::max<std::int64_t>(1, size(1, most));
}

std::pair<std::int64_t, std::int64_t> Draw::image(double least, double most) {
  const std::int64_t height = size(least, most);
  return {height, once_in(4) ? size(least, most) : height};
}

}  // namespace tsq::tuning
