#include "ir/origin.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
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

/// Functions and methods that the library writes in Python around an operator: torch.split, Tensor.__pow__.
constexpr std::array<std::string_view, 3> kWrapperFiles{kDispatchFile, "torch/_tensor.py",
                                                        "torch/functional.py"};

/// Whether `part` is in a path from the start of a name on: "my_torch/nn/functional.py" is not the library's.
bool contains(std::string_view path, std::string_view part) {
  for (auto at = path.find(part); at != std::string_view::npos; at = path.find(part, at + 1)) {
    if (at == 0 || path[at - 1] == '/') return true;
  }
  return false;
}

/// Paths as they are written on Linux.
std::string with_slashes(std::string text) {
  std::replace(text.begin(), text.end(), '\\', '/');
  return text;
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
  std::size_t line;
  std::string_view function;
};

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '<' || c == '>';
  });
}

/// "FILE(12): function". A file is whatever Python calls the place where it read the source: a path,
/// "<stdin>",
/// "<string>", "<ipython-input-3>".
std::optional<Frame> frame_of(std::string_view line) {
  const std::size_t colon = line.rfind("): ");
  if (colon == std::string_view::npos || !is_name(line.substr(colon + 3))) return std::nullopt;
  const std::size_t bracket = line.rfind('(', colon);
  if (bracket == std::string_view::npos || bracket == 0 || bracket + 1 == colon) return std::nullopt;
  const std::string_view number = line.substr(bracket + 1, colon - bracket - 1);
  const bool is_number =
      std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_number) return std::nullopt;
  std::size_t value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return Frame{.file = line.substr(0, bracket), .line = value, .function = line.substr(colon + 3)};
}

/// The Python stack of a traced operator, innermost first; empty for other texts.
std::vector<Frame> frames_of(std::string_view text) {
  std::vector<Frame> frames;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const auto frame = frame_of(text.substr(0, end));
    if (!frame) return frames;
    frames.push_back(*frame);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
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

/// `2.0 / x` runs torch.Tensor's `return self.reciprocal() * other`.
bool is_division_of_number(const Frame& innermost) {
  return contains(innermost.file, "torch/_tensor.py") && innermost.function == "__rdiv__";
}

Origin division_of_number(const Node* node) {
  const bool is_first = node->kind() == c10::aten::reciprocal;
  return {.writer = Origin::Writer::User,
          .expression = is_first ? "torch.reciprocal" : "torch.reciprocal(b) * a",
          .is_number_first = true};
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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\\";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// The arguments of a call in the text after its opening bracket; none where the bracket is not closed.
std::optional<std::vector<std::string_view>> arguments_in(std::string_view text) {
  std::vector<std::string_view> arguments;
  std::size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (depth > 0 && (c == ')' || c == ']' || c == '}')) {
      --depth;
    } else if (depth == 0 && (c == ',' || c == ')')) {
      arguments.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
      if (c == ')') return arguments;
    }
  }
  return std::nullopt;
}

/// The name in `name=value`; empty for another expression, a comparison among them.
std::string_view keyword_of(std::string_view argument) {
  const std::size_t sign = argument.find('=');
  if (sign == std::string_view::npos || argument.substr(sign).starts_with("==")) return {};
  const std::string_view name = trimmed(argument.substr(0, sign));
  return is_name(name) ? name : std::string_view();
}

/// The arguments of the call whose callee `text` stands before; none where it is no call, or where the text
/// does not tell.
std::optional<WrittenArguments> call_arguments(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  const auto arguments = arguments_in(text.substr(1));
  const auto is_unclear = [](std::string_view each) {
    return each.starts_with('*') || each.find('#') != std::string_view::npos;
  };
  if (!arguments || std::ranges::any_of(*arguments, is_unclear)) return std::nullopt;
  WrittenArguments written;
  for (const std::string_view each : *arguments) {
    if (each.empty()) continue;
    const std::string_view keyword = keyword_of(each);
    (keyword.empty() ? written.positional : written.keywords).emplace_back(keyword.empty() ? each : keyword);
  }
  return written;
}

/// Whether a range is in TorchScript's own `def mul(a : float, b : Tensor) -> Tensor` and its like.
bool is_in_function_of_number(const torch::jit::SourceRange& range) {
  if (range.source()->filename() != "<string>") return false;
  const std::string source = range.source()->text_str().str();
  const std::size_t head = source.rfind("def ", range.start());
  const std::size_t brackets = source.find('(', head);
  return head != std::string::npos && brackets != std::string::npos &&
         source.compare(brackets, 5, "(a : ") == 0 &&
         source.find(", b : Tensor) -> Tensor:", brackets) < range.start();
}

Origin from_source(const torch::jit::SourceRange& range) {
  Origin origin{.writer = Origin::Writer::User, .expression = whole_expression(range)};
  origin.is_number_first = is_in_function_of_number(range);
  const std::string file = with_slashes(range.source()->filename().value_or(""));
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
  const std::string stack = with_slashes(text);
  if (const auto frames = frames_of(stack); !frames.empty())
    return is_division_of_number(frames.front()) ? division_of_number(node) : from_stack(frames);
  return text.empty() ? Origin{} : from_source(*range);
}

std::optional<TracedCall> traced_call(const Node* node) {
  const auto range = python_range(node);
  if (!range || range->source() == nullptr) return std::nullopt;
  const std::string stack = with_slashes(range->text().str());
  const std::vector<Frame> frames = frames_of(stack);
  if (frames.empty() || is_division_of_number(frames.front())) return std::nullopt;
  const auto user = std::ranges::find_if(frames, [](const Frame& frame) {
    return std::ranges::none_of(kWrapperFiles,
                                [&](std::string_view file) { return contains(frame.file, file); });
  });
  if (user == frames.end() || contains(user->file, kFunctionalFile) || contains(user->file, kModulesFolder))
    return std::nullopt;
  const auto callers = static_cast<std::size_t>(user->function.data() + user->function.size() - stack.data());
  return TracedCall{.file = std::string(user->file),
                    .line = user->line,
                    .function = std::string(user->function),
                    .callers = stack.substr(callers)};
}

std::optional<WrittenArguments> written_arguments(const Node* node) {
  constexpr std::size_t kLongestCall = 1024;
  const auto range = python_range(node);
  if (!range || range->source() == nullptr) return std::nullopt;
  const auto source = range->source()->text_str();
  const std::size_t end = range->start() + whole_expression(*range).size();
  return end < source.size() ? call_arguments(source.substr(end, kLongestCall).str()) : std::nullopt;
}

}  // namespace tsq::ir
