#include "ir/origin.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

namespace tsq::ir {
namespace {

constexpr std::string_view kFunctionalFile = "torch/nn/functional.py";
constexpr std::string_view kModulesFolder = "torch/nn/modules/";
/// Its _slow_forward and _call_impl stand between a module's caller and its forward.
constexpr std::string_view kModuleBaseFile = "torch/nn/modules/module.py";
constexpr std::string_view kDispatchFile = "torch/_jit_internal.py";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The range in the Python source that a loaded file's own source was generated from.
std::optional<torch::jit::SourceRange> python_range(const Node* node) {
  torch::jit::SourceRange range = node->sourceRange();
  if (auto generating = range.findSourceRangeThatGenerated()) return generating;
  if (range.source() == nullptr || !range.source()->filename() ||
      range.source()->filename()->starts_with("code/"))
    return std::nullopt;
  return range;
}

struct Frame {
  std::string_view file;
  std::string_view function;
};

/// The lines "file.py(12): function" of a traced operator, innermost first; empty for other texts.
std::vector<Frame> frames_of(std::string_view text) {
  std::vector<Frame> frames;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::size_t number = line.find(".py(");
    const std::size_t function = line.find("): ");
    if (number == std::string_view::npos || function == std::string_view::npos) return frames;
    frames.push_back({.file = line.substr(0, number + 3), .function = line.substr(function + 3)});
  }
  return frames;
}

Origin from_stack(const std::vector<Frame>& frames) {
  Origin origin;
  std::size_t i = 0;
  while (i + 1 < frames.size() && contains(frames[i].file, kDispatchFile)) ++i;
  if (contains(frames[i].file, kFunctionalFile)) {
    origin.writer = Origin::Writer::Functional;
    origin.function = frames[i].function;
    int functions = 0;
    for (; i < frames.size(); ++i) {
      const bool is_function = contains(frames[i].file, kFunctionalFile);
      if (!is_function && !contains(frames[i].file, kDispatchFile)) break;
      functions += is_function ? 1 : 0;
    }
    // What a function of the library calls is not what the module calls.
    origin.in_module = functions == 1 && i < frames.size() && contains(frames[i].file, kModulesFolder) &&
                       !contains(frames[i].file, kModuleBaseFile);
  } else if (contains(frames[i].file, kModulesFolder) && !contains(frames[i].file, kModuleBaseFile)) {
    origin.writer = Origin::Writer::Module;
    origin.in_module = true;
  } else {
    origin.writer = Origin::Writer::User;
  }
  return origin;
}

/// The range of a method that is called on a call's result ends short of the method's name.
std::string whole_expression(const torch::jit::SourceRange& range) {
  constexpr std::size_t kLongestName = 64;
  std::string text = range.text().str();
  const auto source = range.source()->text_str();
  if (range.end() >= source.size()) return text;
  const std::string rest = source.substr(range.end(), kLongestName).str();
  const auto is_part_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (text.empty() || !is_part_of_name(static_cast<unsigned char>(text.back()))) return text;
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_part_of_name);
  return text.append(rest.begin(), end);
}

Origin from_source(const torch::jit::SourceRange& range) {
  Origin origin{.writer = Origin::Writer::User, .expression = whole_expression(range)};
  const auto file = range.source()->filename().value_or("");
  if (contains(file, kFunctionalFile)) {
    origin.writer = Origin::Writer::Functional;
  } else if (contains(file, kModulesFolder)) {
    origin.writer = Origin::Writer::Module;
    origin.in_module = true;
  }
  return origin;
}

}  // namespace

Origin origin_of(const Node* node) {
  const auto range = python_range(node);
  if (!range || range->source() == nullptr) return {};
  const std::string text = range->text().str();
  if (const auto frames = frames_of(text); !frames.empty()) return from_stack(frames);
  return text.empty() ? Origin{} : from_source(*range);
}

}  // namespace tsq::ir
