// What a model knows for the report, in words.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/decision.h>
#include <tsq/unmatched.h>

namespace tsq {

std::vector<std::string> notes_of(const Decision& decision) {
  std::vector<std::string> notes = decision.notes;
  if (!decision.saturation.empty()) notes.push_back(decision.saturation);
  return notes;
}

std::string UnmatchedEntry::to_text() const {
  std::string text = is_custom
                         ? fmt::format("{} '{}' of the prepare custom config matches no module", level, entry)
                         : fmt::format("{} '{}' of the qconfig mapping matches no operator", level, entry);
  if (!reason.empty()) text += ": " + reason;
  if (!nearest.empty()) text += fmt::format("; did you mean '{}'?", fmt::join(nearest, "' or '"));
  return text;
}

std::string UnmatchedLowering::to_text() const {
  return fmt::format("the lowering row '{}' for {} lowers nothing: {}", row, kernel, reason);
}

}  // namespace tsq
