#include "runtime/program/program_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

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
  static void from_json(const json& read, tsq::runtime::Extent& extent) {
    extent = {};
    if (read.is_number_integer()) {
      read.get_to(extent.number);
    } else {
      read.at("integer").get_to(extent.integer);
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

/// Calls `visit` with each attribute that holds a constant: its name, its member of Operation, and the kinds
/// of attribute that allow it.
template <typename Visit>
void for_each_attribute(const Visit& visit) {
  using enum Attribute;
  visit("weight", &Operation::weight, Weight, OptionalWeight);
  visit("weight_scales", &Operation::weight_scales, Weight, Scales);
  visit("bias", &Operation::bias, Bias);
  visit("recurrent_weight", &Operation::recurrent_weight, Recurrent);
  visit("recurrent_scales", &Operation::recurrent_scales, Recurrent);
  visit("recurrent_bias", &Operation::recurrent_bias, Recurrent);
  visit("kernel", &Operation::kernel, Kernel);
  visit("stride", &Operation::stride, Stride);
  visit("padding_begin", &Operation::padding_begin, Padding);
  visit("padding_end", &Operation::padding_end, Padding);
  visit("dilation", &Operation::dilation, Dilation);
  visit("groups", &Operation::groups, Groups);
  visit("ceil_mode", &Operation::ceil_mode, CeilMode);
  visit("count_include_pad", &Operation::count_include_pad, CountIncludePad);
  visit("bounded", &Operation::bounded, Bounded);
  visit("alpha", &Operation::alpha, Alpha);
  visit("causal", &Operation::causal, Causal);
  visit("backward", &Operation::backward, Recurrent);
  visit("reads_states", &Operation::reads_states, Recurrent);
  visit("epsilon", &Operation::epsilon, Epsilon);
  visit("axis", &Operation::axis, Axis);
  visit("other_axis", &Operation::other_axis, OtherAxis);
  visit("end_axis", &Operation::end_axis, EndAxis);
  visit("begin", &Operation::begin, Range);
  visit("end", &Operation::end, Range);
  visit("step", &Operation::step, Range);
  visit("shape", &Operation::shape, TargetShape);
  visit("order", &Operation::order, Order);
  visit("size", &Operation::size, Size);
  visit("scale_factors", &Operation::scale_factors, Size);
  visit("axes", &Operation::axes, Axes);
  visit("keep_dims", &Operation::keep_dims, Axes);
  visit("fill", &Operation::fill, Fill);
  visit("number", &Operation::number, Number);
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

Json to_json(const PostOp& post_op) {
  const PostOp standard;
  Json json{{"kind", name_of(post_op.kind)}};
  write_unless_default(json, "alpha", post_op.alpha, standard.alpha);
  write_unless_default(json, "beta", post_op.beta, standard.beta);
  write_unless_default(json, "value", post_op.value, standard.value);
  return json;
}

Json to_json(const Operation& operation) {
  const Operation standard;
  Json json{{"kind", name_of(operation.kind)}, {"inputs", operation.inputs}, {"output", operation.output}};
  write_unless_default(json, "name", operation.name, {});
  for_each_attribute([&](const char* name, auto member, auto...) {
    write_unless_default(json, name, operation.*member, standard.*member);
  });
  for (const auto& post_op : operation.post_ops) json["post_ops"].push_back(to_json(post_op));
  return json;
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
    try {
      member.get_to(value);
    } catch (const Json::exception&) {
      fail(in_quotes(name) + " is " + member.dump() + ", of another type", "see docs/runtime.md");
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
  reader.read("alpha", post_op.alpha);
  reader.read("beta", post_op.beta);
  reader.read("value", post_op.value);
  reader.refuse_others();
  return post_op;
}

void read_attributes(Reader& reader, Attributes attributes, Operation& operation) {
  for_each_attribute([&](const char* name, auto member, auto... wanted_by) {
    if ((has(attributes, wanted_by) || ...)) reader.read(name, operation.*member);
  });
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
  Json post_ops = Json::array();
  if (row.post_ops != PostOpsAllowed::None) named.read("post_ops", post_ops);
  for (std::size_t i = 0; i < post_ops.size(); ++i) {
    operation.post_ops.push_back(read_post_op(post_ops[i], numbered(named.where() + ", post-op", i)));
  }
  named.refuse_others();
  return operation;
}

template <typename T, typename Read>
void read_list(Reader& reader, const char* name, std::string_view item, std::vector<T>& list,
               const Read& read) {
  Json items = Json::array();
  reader.read(name, items);
  for (std::size_t i = 0; i < items.size(); ++i) list.push_back(read(items[i], numbered(item, i)));
}

Json parse(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    throw ProgramError("the list of operations", "it is no JSON", "the file is damaged: write it again");
  }
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
