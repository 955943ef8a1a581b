#include "runtime/program/program_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/program/attributes.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"

/// A number, or {"integer": row}.
template <>
struct nlohmann::adl_serializer<tsq::runtime::Extent> {
  static void to_json(json& written, const tsq::runtime::Extent& extent) {
    if (extent.is_computed()) {
      written = json{{"integer", extent.integer}};
    } else {
      written = extent.number;
    }
  }
};

namespace tsq::runtime {
namespace {

using Json = nlohmann::json;

std::string in_quotes(std::string_view name) {
  std::string text("'");
  text.append(name).append("'");
  return text;
}

template <typename T>
void write_unless_default(Json& json, const char* name, const T& value, const T& standard) {
  if (value != standard) json[name] = value;
}

void write_unless_default(Json& json, const char* name, const std::optional<int>& value,
                          const std::optional<int>& /*standard*/ = {}) {
  if (value) json[name] = *value;
}

Json to_json(const Value& value) {
  Json json{{"dtype", name_of(value.dtype)}};
  if (is_int8(value.dtype)) {
    json["scale"] = value.scale;
    json["zero_point"] = value.zero_point;
  }
  write_unless_default(json, "constant", value.constant);
  return json;
}

Json to_json(const Integer& integer) {
  const Integer standard;
  Json json{{"kind", name_of(integer.kind)}};
  write_unless_default(json, "value", integer.value, standard.value);
  write_unless_default(json, "axis", integer.axis, standard.axis);
  write_unless_default(json, "left", integer.left, standard.left);
  write_unless_default(json, "right", integer.right, standard.right);
  return json;
}

/// Calls `visit` with each member of such a post-op: its name, and the member of PostOp.
template <typename Visit>
void for_each_member(PostOpKind kind, const Visit& visit) {
  const auto members = members_of(kind);
  if (members == PostOpMembers::Value) visit("value", &PostOp::value);
  if (members == PostOpMembers::Alpha || members == PostOpMembers::AlphaAndBeta)
    visit("alpha", &PostOp::alpha);
  if (members == PostOpMembers::AlphaAndBeta) visit("beta", &PostOp::beta);
}

Json to_json(const PostOp& post_op) {
  const PostOp standard;
  Json json{{"kind", name_of(post_op.kind)}};
  for_each_member(post_op.kind, [&](const char* name, auto member) {
    write_unless_default(json, name, post_op.*member, standard.*member);
  });
  return json;
}

Json to_json(const Operation& operation) {
  const Operation standard;
  Json json{{"kind", name_of(operation.kind)}, {"inputs", operation.inputs}, {"output", operation.output}};
  write_unless_default(json, "name", operation.name, {});
  for_each_attribute([&](const char* name, auto member, auto /*limits*/, auto... /*wanted_by*/) {
    write_unless_default(json, name, operation.*member, standard.*member);
  });
  for (const auto& post_op : operation.post_ops) json["post_ops"].push_back(to_json(post_op));
  return json;
}

// Whether JSON holds such a value, which is then read: no number is rounded, cut off or made of a truth
// value.

bool read_from(const Json& json, std::int64_t& value) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > kLargest) return false;
  value = json.get<std::int64_t>();
  return true;
}

bool read_from(const Json& json, int& value) {
  std::int64_t number = 0;
  if (!read_from(json, number) || !std::in_range<int>(number)) return false;
  value = static_cast<int>(number);
  return true;
}

bool read_from(const Json& json, double& value) {
  if (!json.is_number()) return false;
  value = json.get<double>();
  return std::isfinite(value);
}

bool read_from(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}

bool read_from(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get_ref<const std::string&>();
  return true;
}

bool read_from(const Json& json, Extent& extent) {
  extent = {};
  if (!json.is_object()) return read_from(json, extent.number);
  const auto row = json.find("integer");
  return json.size() == 1 && row != json.end() && read_from(*row, extent.integer) && extent.is_computed();
}

template <typename T>
bool read_from(const Json& json, std::vector<T>& list) {
  list.clear();
  if (!json.is_array()) return false;
  for (const auto& item : json) {
    if (!read_from(item, list.emplace_back())) return false;
  }
  return true;
}

/// A value as errors show it.
std::string shown(const Json& json) {
  constexpr std::size_t kLongest = 40;
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

/// Reads the members of one JSON object, and refuses those that nobody asked for.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("it is " + std::string(json.type_name()), "an object is wanted");
  }

  template <typename T>
  void read(const char* name, T& value) {
    if (const Json* member = find(name)) assign(*member, name, value);
  }

  void read(const char* name, std::optional<int>& value) {
    if (const Json* member = find(name)) assign(*member, name, value.emplace());
  }

  /// The list of this name, whose items are objects; null if there is none.
  const Json* list(const char* name) {
    const Json* member = find(name);
    if (member != nullptr && !member->is_array())
      fail(in_quotes(name) + " is " + shown(*member) + ", of another type", "see docs/runtime.md");
    return member;
  }

  template <typename T>
  void require(const char* name, T& value) {
    if (!json_.contains(name)) fail(in_quotes(name) + " is missing", "write it");
    read(name, value);
  }

  void refuse_others() const {
    for (const auto& [name, member] : json_.items()) {
      if (!known_.contains(name)) {
        fail("it has no member " + in_quotes(name), "remove it, or update libtsq_runtime if it is newer");
      }
    }
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw ProgramError(where_, problem, remedy);
  }

  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const Json* find(const char* name) {
    known_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  template <typename T>
  void assign(const Json& member, const char* name, T& value) const {
    if (!read_from(member, value)) {
      fail(in_quotes(name) + " is " + shown(member) +
               (member.is_structured() ? " with what it may not hold" : ", of another type"),
           "see docs/runtime.md");
    }
  }

  const Json& json_;
  std::string where_;
  std::set<std::string> known_{};
};

template <typename Rows>
auto kind_named(const Rows& rows, const Reader& reader, const std::string& name) {
  const auto row = std::ranges::find_if(rows, [&](const auto& candidate) { return candidate.name == name; });
  if (row == rows.end()) {
    reader.fail("kind " + in_quotes(name) + " is unknown",
                "write one of docs/runtime.md, or update libtsq_runtime");
  }
  return row->kind;
}

Dtype dtype_named(const Reader& reader, const std::string& name) {
  for (const auto dtype : {Dtype::F32, Dtype::U8, Dtype::S8, Dtype::I64}) {
    if (name == name_of(dtype)) return dtype;
  }
  reader.fail("dtype " + in_quotes(name) + " is unknown", "write 'f32', 'u8', 's8' or 'i64'");
}

std::string numbered(std::string_view name, std::size_t number) {
  std::string text(name);
  text.append(" ").append(std::to_string(number));
  return text;
}

Value read_value(const Json& json, const std::string& where) {
  Reader reader(json, where);
  Value value;
  std::string dtype;
  reader.require("dtype", dtype);
  value.dtype = dtype_named(reader, dtype);
  if (is_int8(value.dtype)) {
    reader.require("scale", value.scale);
    reader.require("zero_point", value.zero_point);
  }
  reader.read("constant", value.constant);
  reader.refuse_others();
  return value;
}

Integer read_integer(const Json& json, const std::string& where) {
  Reader reader(json, where);
  Integer integer;
  std::string kind;
  reader.require("kind", kind);
  integer.kind = kind_named(integer_table(), reader, kind);
  reader.read("value", integer.value);
  reader.read("axis", integer.axis);
  reader.read("left", integer.left);
  reader.read("right", integer.right);
  reader.refuse_others();
  return integer;
}

PostOp read_post_op(const Json& json, const std::string& where) {
  Reader reader(json, where);
  PostOp post_op;
  std::string kind;
  reader.require("kind", kind);
  post_op.kind = kind_named(post_op_table(), reader, kind);
  for_each_member(post_op.kind, [&](const char* name, auto member) { reader.read(name, post_op.*member); });
  reader.refuse_others();
  return post_op;
}

void read_attributes(Reader& reader, Attributes attributes, Operation& operation) {
  for_each_attribute([&](const char* name, auto member, auto /*limits*/, auto... wanted_by) {
    if ((has(attributes, wanted_by) || ...)) reader.read(name, operation.*member);
  });
}

template <typename T, typename Read>
void read_list(Reader& reader, const char* name, std::string_view item, std::vector<T>& list,
               const Read& read) {
  const Json* items = reader.list(name);
  if (items == nullptr) return;
  for (std::size_t i = 0; i < items->size(); ++i) list.push_back(read((*items)[i], numbered(item, i)));
}

Operation read_operation(const Json& json, const std::string& where) {
  Reader reader(json, where);
  Operation operation;
  std::string kind;
  reader.require("kind", kind);
  operation.kind = kind_named(operation_table(), reader, kind);
  const auto& row = row_of(operation.kind);
  Reader named(json, where + " (" + kind + ")");
  named.require("kind", kind);
  named.require("inputs", operation.inputs);
  named.require("output", operation.output);
  named.read("name", operation.name);
  read_attributes(named, row.attributes, operation);
  if (row.post_ops != PostOpsAllowed::None)
    read_list(named, "post_ops", where + " (" + kind + "), post-op", operation.post_ops, read_post_op);
  named.refuse_others();
  return operation;
}

/// Hears what JSON holds before any of it is kept. What nests deeper than programs do, and names that come
/// twice in one object, of which a reader would take either, are refused.
class Guard : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(std::int64_t /*value*/) override { return true; }
  bool number_unsigned(std::uint64_t /*value*/) override { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return true; }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(Json::binary_t& /*value*/) override { return true; }
  bool start_array(std::size_t /*size*/) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second) fail(shown(Json(name)) + " is written twice in one object");
    return true;
  }
  bool parse_error(std::size_t place, const std::string& /*last*/, const Json::exception& error) override {
    const bool is_number = dynamic_cast<const Json::out_of_range*>(&error) != nullptr;
    fail(is_number ? "a number in it is too large" : "it is no JSON after byte " + std::to_string(place));
  }

 private:
  [[noreturn]] static void fail(const std::string& problem) {
    throw ProgramError("the list of operations", problem, "the file is damaged: write it again");
  }

  bool open() {
    constexpr std::size_t kDeepest = 8;
    names_.emplace_back();
    if (names_.size() > kDeepest)
      fail("it nests more than " + std::to_string(kDeepest) + " lists and objects");
    return true;
  }
  bool close() {
    names_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> names_{};  ///< of the lists and objects that are open
};

Json parse(std::string_view text) {
  Guard guard;
  Json::sax_parse(text, &guard);
  return Json::parse(text);
}

}  // namespace

std::string to_json(const Program& program) {
  Json json{{"version", kProgramVersion},
            {"values", Json::array()},
            {"inputs", program.inputs},
            {"outputs", program.outputs},
            {"operations", Json::array()}};
  for (const auto& value : program.values) json["values"].push_back(to_json(value));
  write_unless_default(json, "given_integers", program.given_integers, 0);
  for (const auto& integer : program.integers) json["integers"].push_back(to_json(integer));
  for (const auto& operation : program.operations) json["operations"].push_back(to_json(operation));
  return json.dump();
}

Program program_from_json(std::string_view text) {
  const Json json = parse(text);
  Reader reader(json, "the list of operations");
  int version = 0;
  reader.require("version", version);
  if (version < 1 || version > kProgramVersion) {
    reader.fail("its version is " + std::to_string(version) + ", and this library reads 1 to " +
                    std::to_string(kProgramVersion),
                "update libtsq_runtime");
  }
  Program program;
  reader.require("inputs", program.inputs);
  reader.require("outputs", program.outputs);
  reader.read("given_integers", program.given_integers);
  read_list(reader, "values", "value", program.values, read_value);
  read_list(reader, "integers", "integer", program.integers, read_integer);
  read_list(reader, "operations", "operation", program.operations, read_operation);
  reader.refuse_others();
  return program;
}

}  // namespace tsq::runtime
