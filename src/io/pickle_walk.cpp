#include "io/pickle_walk.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/entries.h"
#include "io/pickle_values.h"
#include "io/pickled_tensor.h"

namespace tsq::io {
namespace {

/// What LibTorch does with the arguments that follow a name.
enum class Build : std::uint8_t {
  AsItIs,        ///< a type is noted, nothing else changes
  FirstOfTuple,  ///< a list or dict, or a parameter's tensor
  TypedValue,    ///< the first of a tuple, whose second is its type as text
  Tensor,
  QuantizedTensor,
  TensorOfType,  ///< the next name says how the tensor is built
  None,
  Other,
  Object,
};

/// The names that LibTorch knows by itself, as "module.name". Others are classes of the file's code.
constexpr std::array<std::pair<std::string_view, Build>, 14> kBuilds{{
    {"__main__.IntList", Build::AsItIs},
    {"torch._utils._rebuild_tensor_v2", Build::Tensor},
    {"torch._utils._rebuild_qtensor", Build::QuantizedTensor},
    {"torch._utils._rebuild_parameter", Build::FirstOfTuple},
    {"torch._utils._rebuild_sparse_tensor", Build::Other},
    {"torch._tensor._rebuild_from_type_v2", Build::TensorOfType},
    {"torch.jit._pickle.build_intlist", Build::FirstOfTuple},
    {"torch.jit._pickle.build_tensorlist", Build::FirstOfTuple},
    {"torch.jit._pickle.build_doublelist", Build::FirstOfTuple},
    {"torch.jit._pickle.build_boollist", Build::FirstOfTuple},
    {"torch.jit._pickle.restore_type_tag", Build::TypedValue},
    {"builtins.complex", Build::Other},
    {"collections.OrderedDict", Build::None},
    {"torch.device", Build::Other},
}};

#define TSQ_STORAGE(type, name) std::string_view("torch." #name "Storage"),
constexpr std::array kStorages{AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(TSQ_STORAGE)};
#undef TSQ_STORAGE

/// The numbers that stand for torch.per_tensor_affine and its like.
constexpr std::array<std::pair<std::string_view, int>, 5> kQSchemes{
    {{"torch.per_tensor_affine", 0},
     {"torch.per_channel_affine", 1},
     {"torch.per_tensor_symmetric", 2},
     {"torch.per_channel_symmetric", 3},
     {"torch.per_channel_affine_float_qparams", 4}}};

/// How deep brackets nest in a type that is written as text; LibTorch reads it by recursion.
int nesting_of(std::string_view type) {
  int depth = 0;
  int deepest = 0;
  for (const char c : type) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

/// LibTorch refuses the pickle here, in a sentence of its own.
struct RefusedByLibTorch {};

class Walk {
 public:
  explicit Walk(std::string_view bytes) : bytes_(bytes), size_(bytes.size()) {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  PickledValues run() {
    try {
      if (byte() != '\x80' || byte() != 2) throw RefusedByLibTorch();
      for (char code = byte(); code != '.'; code = byte()) follow(code);
      read_.facts.is_whole = true;
      if (stack_.size() == 1) read_.root = stack_.front();
    } catch (const RefusedByLibTorch&) {
      read_.facts.is_whole = false;
    }
    check_nesting(read_.values);  // what is refused is destroyed, by recursion
    return std::move(read_);
  }

 private:
  std::string_view text(std::size_t length) {
    if (length > bytes_.size()) throw PickleFault("is cut short");
    const std::string_view text = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return text;
  }
  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, text(sizeof(Number)).data(), sizeof(Number));
    return value;
  }
  char byte() { return number<char>(); }
  std::string_view line() {
    const std::string_view line = text(std::min(bytes_.find('\n'), bytes_.size()));
    text(1);
    return line;
  }

  PickledValue& value(std::size_t place) { return read_.values[place]; }

  [[noreturn]] static void fail_many() {
    throw PickleFault(fmt::format("holds more than {} values", kMostPickledValues));
  }
  void push(PickledValue pushed) {
    weight_ += weight_of(pushed.kind);
    if (weight_ > kMostPickledValues) fail_many();
    stack_.push_back(read_.values.size());
    read_.values.push_back(std::move(pushed));
  }
  void push_integer(std::int64_t number) { push({.kind = PickledKind::Integer, .number = number}); }

  [[noreturn]] static void fail_empty() {
    throw PickleFault("takes more values from its stack than it has put there");
  }
  void require_on_stack(std::size_t count) const {
    if (stack_.size() < count) fail_empty();
  }
  std::size_t top() const {
    require_on_stack(1);
    return stack_.back();
  }
  std::size_t pop() {
    const std::size_t place = top();
    stack_.pop_back();
    return place;
  }
  std::vector<std::size_t> pop_many(std::size_t count) {
    require_on_stack(count);
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::size_t> places(first, stack_.end());
    stack_.erase(first, stack_.end());
    return places;
  }
  std::vector<std::size_t> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) fail_empty();
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return pop_many(count);
  }

  void remember(std::size_t place_in_memo) {
    // LibTorch makes room for all places before this one.
    if (place_in_memo > std::min<std::size_t>(size_, kMostPickledValues))
      throw PickleFault("names a place of its memo that none of its size needs");
    if (place_in_memo >= memo_.size()) memo_.resize(place_in_memo + 1);
    memo_[place_in_memo] = top();
  }
  void recall(std::size_t place_in_memo) {
    if (place_in_memo >= memo_.size()) throw PickleFault("recalls what it has not remembered");
    if (!memo_[place_in_memo]) return push({});
    if (stack_.size() >= kMostPickledValues) fail_many();
    stack_.push_back(*memo_[place_in_memo]);
  }
  void mark() {
    if (marks_.size() >= kMostMarks) throw PickleFault(fmt::format("opens more than {} values", kMostMarks));
    marks_.push_back(stack_.size());
  }

  void push_tuple(std::vector<std::size_t> parts) {
    push({.kind = PickledKind::Tuple, .parts = std::move(parts)});
  }
  /// Parts that were taken from the stack go into the collection that lies on it now.
  void append(PickledKind to, const std::vector<std::size_t>& parts) {
    PickledValue& collection = value(top());
    if (collection.kind != to) throw RefusedByLibTorch();
    collection.parts.insert(collection.parts.end(), parts.begin(), parts.end());
  }
  void set_items(const std::vector<std::size_t>& parts) {
    if (parts.size() % 2 != 0) throw PickleFault("has a key without a value");
    append(PickledKind::Dict, parts);
  }

  void follow(char code) {
    switch (code) {
      case ']':  // EMPTY_LIST
        return push({.kind = PickledKind::List});
      case ')':  // EMPTY_TUPLE
        return push_tuple({});
      case '}':  // EMPTY_DICT
        return push({.kind = PickledKind::Dict});
      case 'q':  // BINPUT
        return remember(number<std::uint8_t>());
      case 'r':  // LONG_BINPUT
        return remember(number<std::uint32_t>());
      case 'h':  // BINGET
        return recall(number<std::uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<std::uint32_t>());
      case '(':  // MARK
        return mark();
      case '\x88':  // NEWTRUE
        return push({.kind = PickledKind::Bool, .number = 1});
      case '\x89':  // NEWFALSE
        return push({.kind = PickledKind::Bool});
      case 'N':  // NONE
        return push({});
      case 'K':  // BININT1
        return push_integer(number<std::uint8_t>());
      case 'M':  // BININT2
        return push_integer(number<std::uint16_t>());
      case 'J':  // BININT
        return push_integer(number<std::int32_t>());
      case '\x8a':  // LONG1
        if (number<std::uint8_t>() != sizeof(std::int64_t)) throw RefusedByLibTorch();
        return push_integer(number<std::int64_t>());
      case 'G':  // BINFLOAT
        text(sizeof(double));
        return push({.kind = PickledKind::Other});
      case 'X':  // BINUNICODE
        return push({.kind = PickledKind::Text, .text = text(number<std::uint32_t>())});
      default:
        return follow_collection(code);
    }
  }

  void follow_collection(char code) {
    switch (code) {
      case 't':  // TUPLE
        return push_tuple(pop_to_mark());
      case '\x85':  // TUPLE1, TUPLE2, TUPLE3
      case '\x86':
      case '\x87':
        return push_tuple(pop_many(static_cast<std::size_t>(code - '\x84')));
      case 'l':  // LIST
        return push({.kind = PickledKind::List, .parts = pop_to_mark()});
      case 'a':  // APPEND
        return append(PickledKind::List, pop_many(1));
      case 'e':  // APPENDS
        return append(PickledKind::List, pop_to_mark());
      case 'd': {  // DICT
        const std::vector<std::size_t> parts = pop_to_mark();
        push({.kind = PickledKind::Dict});
        return set_items(parts);
      }
      case 's':  // SETITEM
        return set_items(pop_many(2));
      case 'u':  // SETITEMS
        return set_items(pop_to_mark());
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return name(fmt::format("{}.{}", module, line()));
      }
      case '\x81':  // NEWOBJ: the class stays, the arguments go
        pop();
        return;
      case 'b':  // BUILD
      case 'R':  // REDUCE
        return build();
      case 'Q':  // BINPERSID
        return push_storage(pop());
      default:
        throw RefusedByLibTorch();
    }
  }

  /// A name stands on the stack as the number of what it builds, or of the dtype or scheme that it means.
  void name(const std::string& named) {
    const bool is_type = names_of_tensor_ > 0 && --names_of_tensor_ == 0;
    if (is_type) return push_integer(static_cast<std::int64_t>(builds_.size()) - 1);
    const auto storage = std::ranges::find(kStorages, named);
    if (storage != kStorages.end()) return push_integer(storage - kStorages.begin());
    if (const auto* scheme = find_entry(kQSchemes, std::string_view(named)))
      return push_integer(scheme->second);
    const auto* known = find_entry(kBuilds, std::string_view(named));
    if (known == nullptr && (named.starts_with("torch.jit._pickle.") || named.starts_with("__main__.")))
      throw RefusedByLibTorch();
    builds_.push_back(known == nullptr ? Build::Object : known->second);
    if (builds_.back() == Build::TensorOfType) names_of_tensor_ = 2;
    push_integer(static_cast<std::int64_t>(builds_.size()) - 1);
  }

  void build() {
    const std::size_t argument = pop();
    const PickledValue& what = value(pop());
    if (what.kind != PickledKind::Integer) throw RefusedByLibTorch();
    build(static_cast<std::size_t>(what.number), argument);
  }

  void build(std::size_t index, std::size_t argument) {
    if (index >= builds_.size()) throw PickleFault("builds what it has not named");
    switch (builds_[index]) {
      case Build::AsItIs:
        return stack_.push_back(argument);
      case Build::FirstOfTuple:
        return stack_.push_back(part(argument, 0));
      case Build::TypedValue:
        if (nesting_of(value(part(argument, 1)).text) > kDeepestType)
          throw PickleFault("nests a type too deeply");
        return stack_.push_back(part(argument, 0));
      case Build::Tensor:
      case Build::QuantizedTensor:
        return push_tensor(argument, builds_[index] == Build::QuantizedTensor);
      case Build::TensorOfType:
        if (index + 1 < builds_.size() && builds_[index + 1] == Build::TensorOfType)
          throw RefusedByLibTorch();
        return build(index + 1, part(argument, 2));
      case Build::None:
        return push({});
      case Build::Other:
        return push({.kind = PickledKind::Other, .parts = {argument}});
      case Build::Object:
        return push({.kind = PickledKind::Object, .parts = {argument}});
    }
  }

  std::size_t part(std::size_t of, std::size_t index) {
    const PickledValue& whole = value(of);
    if (whole.kind != PickledKind::Tuple || index >= whole.parts.size()) throw RefusedByLibTorch();
    return whole.parts[index];
  }

  void push_storage(std::size_t described) {
    std::optional<NamedStorage> storage = storage_of(read_.values, described);
    if (!storage) throw RefusedByLibTorch();
    if (storage->facts.bytes > 0) read_.facts.storages.push_back(storage->facts);
    push(std::move(storage->value));
  }

  void push_tensor(std::size_t described, bool is_quantized) {
    std::optional<PickledValue> tensor = tensor_of(read_.values, described, is_quantized);
    if (!tensor) throw RefusedByLibTorch();
    const auto bytes = tensor->elements * static_cast<std::int64_t>(item_size(tensor->dtype));
    if (__builtin_add_overflow(read_.facts.tensors, bytes, &read_.facts.tensors))
      throw PickleFault("has numbers that leave 64 bits");
    push(std::move(*tensor));
  }

  static constexpr int kDeepestType = 32;
  /// That are open at a time: one for each level of values, and one for the arguments that make it.
  static constexpr std::size_t kMostMarks = std::size_t{4} * kDeepestPickle;

  std::string_view bytes_;  ///< what is left
  std::size_t size_;
  PickledValues read_{};
  std::int64_t weight_{0};  ///< of all values
  std::vector<std::size_t> stack_{};
  std::vector<std::size_t> marks_{};
  std::vector<std::optional<std::size_t>> memo_{};
  std::vector<Build> builds_{};
  int names_of_tensor_{0};  ///< that follow: how it is built, and its type
};

}  // namespace

PickledValues read_pickle_values(std::string_view bytes) { return Walk(bytes).run(); }

PickleFacts walk_pickle(std::string_view bytes) { return read_pickle_values(bytes).facts; }

}  // namespace tsq::io
