#include <algorithm>
#include <cstdint>
#include <optional>

#include "io/pickle_values.h"
#include "io/pickle_walk.h"

namespace tsq::io {
namespace {

/// Reads a record of source positions as LibTorch does, and looks at every place that it names.
class Positions {
 public:
  explicit Positions(const PickledValues& pickle) : values_(pickle.values) {}

  void check(std::size_t root) {
    const std::vector<std::size_t>& parts = tuple(root, 1);
    const bool has_table = at(parts[0]).text == "FORMAT_WITH_STRING_TABLE";
    if (has_table) table_ = &tuple(part(root, 1), 0);
    for (const std::size_t line : has_table ? tuple(part(root, 2), 0) : parts) check_line(line);
  }

 private:
  [[noreturn]] static void fail() { throw PickleFault("does not hold source positions"); }

  [[nodiscard]] const PickledValue& at(std::size_t place) const { return values_[place]; }
  [[nodiscard]] const std::vector<std::size_t>& tuple(std::size_t place, std::size_t least) const {
    if (at(place).kind != PickledKind::Tuple || at(place).parts.size() < least) fail();
    return at(place).parts;
  }
  [[nodiscard]] std::size_t part(std::size_t of, std::size_t index) const {
    return tuple(of, index + 1)[index];
  }
  std::int64_t integer(std::size_t place) const {
    if (at(place).kind != PickledKind::Integer) fail();
    return at(place).number;
  }
  std::int64_t length(std::size_t place) const {
    if (at(place).kind != PickledKind::Text) fail();
    return static_cast<std::int64_t>(at(place).text.size());
  }
  [[nodiscard]] std::size_t in_table(std::int64_t index) const {
    if (index < 0 || index >= static_cast<std::int64_t>(table_->size())) fail();
    return (*table_)[static_cast<std::size_t>(index)];
  }

  void check_line(std::size_t line) const {
    integer(part(line, 0));
    const std::size_t range = part(line, 1);
    const std::int64_t start = integer(part(range, 1));
    const std::int64_t end = integer(part(range, 2));
    // What has no source is the first letter of an empty text.
    if (start < 0 || end < start || end > std::max<std::int64_t>(length_of_source(part(range, 0)), 1)) fail();
  }

  [[nodiscard]] std::int64_t length_of_source(std::size_t source) const {
    integer(part(source, 2));
    const std::size_t text = part(source, 0);
    const std::size_t file = part(source, 1);
    if (table_ == nullptr) {
      if (at(file).kind != PickledKind::None) length(file);
      return length(text);
    }
    length(in_table(integer(file)));
    if (at(text).kind != PickledKind::List) fail();
    std::int64_t sum = 0;
    for (const std::size_t piece : at(text).parts) sum += length(in_table(integer(piece)));
    return sum;
  }

  const std::vector<PickledValue>& values_;
  const std::vector<std::size_t>* table_{nullptr};
};

}  // namespace

void check_source_positions(std::string_view bytes) {
  const PickledValues pickle = read_pickle_values(bytes);
  if (!pickle.root) throw PickleFault("does not hold source positions");
  Positions(pickle).check(*pickle.root);
}

}  // namespace tsq::io
