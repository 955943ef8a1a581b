// Programs and calls with random faults: each runs, or is refused with a sentence. Nothing else may happen,
// which a build with sanitizers sees best. TSQ_MUTATIONS in the environment is another number of cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/available_memory.h"
#include "runtime/cases.h"
#include "runtime/networks.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"
#include "runtime/program/program_json.h"

namespace tsq::runtime::test {
namespace mutated_program_test {

using Json = nlohmann::json;

Json any_number(Random& random) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  constexpr auto power = [](int bits) { return std::int64_t{1} << bits; };
  return random.any_of<Json>({0,
                              1,
                              2,
                              3,
                              -1,
                              -2,
                              7,
                              63,
                              64,
                              255,
                              1000,
                              power(31) - 1,
                              power(31),
                              -power(31),
                              power(32),
                              power(40),
                              power(58),
                              power(59),
                              power(62),
                              -power(62),
                              kLargest,
                              -kLargest - 1,
                              std::uint64_t{1} << 63,
                              0.5,
                              -0.0,
                              1e-300,
                              1e300,
                              -1e300,
                              3.4e38});
}

Json any_value(Random& random) {
  switch (random.integer(0, 9)) {
    case 0:
      return random.any_of<Json>({nullptr, true, "relu", "add", "", Json::object(), Json::array()});
    case 1:
      return Json{{"integer", any_number(random)}};
    case 2:
      return Json{{"kind", "relu"}, {"value", any_number(random)}};
    case 3: {
      Json list = Json::array();
      const auto length = random.any_of<std::int64_t>({1, 2, 3, 4, 5, 13, 65});
      for (std::int64_t i = 0; i < length; ++i) list.push_back(any_number(random));
      return list;
    }
    default:
      return any_number(random);
  }
}

/// A random place in JSON.
Json& any_place(Random& random, Json& json) {
  Json* place = &json;
  while (place->is_structured() && !place->empty() && random.integer(0, 7) > 0) {
    auto item = place->begin();
    std::advance(item, random.integer(0, static_cast<std::int64_t>(place->size()) - 1));
    place = &*item;
  }
  return *place;
}

void mutate(Random& random, Json& json) {
  Json& place = any_place(random, json);
  const auto choice = random.integer(0, 9);
  if (choice == 0 && place.is_array() && !place.empty()) {
    place.erase(static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(place.size()) - 1)));
  } else if (choice == 1 && place.is_array() && !place.empty()) {
    const Json copy = place.front();
    place.push_back(copy);
  } else if (choice == 2 && place.is_object() && !place.empty()) {
    place.erase(place.begin());
  } else if (choice == 3 && place.is_object()) {
    const auto name =
        random.any_of<const char*>({"axis", "end_axis", "stride", "padding_end", "dilation", "groups",
                                    "shape", "size", "step", "begin", "end", "alpha", "weight", "bias"});
    place[name] = any_value(random);
  } else if (choice == 4) {
    const Json copy = any_place(random, json);
    any_place(random, json) = copy;
  } else {
    place = any_value(random);
  }
}

/// A program of one operation, or a small network.
Model any_model(Random& random) {
  if (random.integer(0, 9) == 0) return small_network(1);
  if (random.integer(0, 9) == 0) return transformer_like();
  const auto table = operation_table();
  const auto& row =
      table[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(table.size()) - 1))];
  Writer writer;
  writer.model.program.given_integers = 1;
  const Extent given = writer.integer({.kind = IntegerKind::Given});
  Operation operation = plain_operation(row.kind);
  const int most = std::max(row.inputs, 1) + row.more_inputs;
  const bool embeds = row.kind == Kind::Embedding;
  for (int i = 0; i < (row.inputs == 0 ? 0 : most); ++i)
    operation.inputs.push_back(writer.input(random_value(random, embeds ? Dtype::I64 : any_dtype(random))));
  if (row.inputs == 0) writer.input({});
  const bool recurrent = is_recurrent(row.kind);
  const Shape weight = recurrent                  ? Shape{row.kind == Kind::Lstm ? 16 : 12, 6}
                       : row.kind == Kind::Linear ? Shape{8, 6}
                                                  : Shape{8, 8, 1, 1};
  if (has(row.attributes, Attribute::Weight)) add_weights(random, writer, operation, weight, weight[0]);
  if (recurrent) {
    operation.recurrent_weight = writer.constant(random_tensor(random, Dtype::F32, {weight[0], 4}));
  } else if (has(row.attributes, Attribute::OptionalWeight)) {
    operation.weight = writer.constant(random_tensor(random, Dtype::F32, embeds ? Shape{5, 6} : Shape{8}));
  }
  for (auto& extent : operation.shape) {
    if (random.integer(0, 3) == 0) extent = given;
  }
  writer.returns({writer.add(operation, random_value(random, embeds ? Dtype::F32 : any_dtype(random)))});
  return writer.model;
}

Shape any_shape(Random& random) {
  if (random.integer(0, 3) > 0)
    return random.any_of<Shape>({{2, 8, 6, 6}, {1, 3, 32, 32}, {2, 8}, {3, 2, 6}, {8}, {4, 6}});
  Shape shape;
  const auto rank = random.any_of<std::int64_t>({0, 1, 2, 3, 4, 5, 6, 13, 65});
  for (std::int64_t d = 0; d < rank; ++d)
    shape.push_back(rank > 6 ? 1 : random.any_of<std::int64_t>({0, 1, 2, 3, 6, 8}));
  return shape;
}

/// Constants of other shapes or dtypes.
void mutate_constants(Random& random, std::vector<Constant>& constants) {
  if (constants.empty()) return;
  Writer writer;
  writer.constant(random_tensor(random, random.any_of<Dtype>({Dtype::F32, Dtype::U8, Dtype::S8, Dtype::I64}),
                                any_shape(random)));
  const auto place = random.integer(0, static_cast<std::int64_t>(constants.size()) - 1);
  constants[static_cast<std::size_t>(place)] = writer.model.constants.front();
}

/// Loads the program, and calls it with tensors and integers of any kind.
void call(Random& random, const std::string& json, std::vector<Constant> constants) {
  LoadedProgram program({.program = program_from_json(json), .constants = std::move(constants)});
  const auto& loaded = program.model().program;
  for (int calls = 0; calls < 2; ++calls) {
    std::vector<Tensor> inputs;
    for (const int input : loaded.inputs) {
      const auto& value = loaded.values[static_cast<std::size_t>(input)];
      inputs.push_back(random_tensor(random, value.dtype, any_shape(random)));
      if (value.dtype != Dtype::I64) continue;
      for (auto& row : inputs.back().numbers)
        row = random.integer(0, 30) == 0 ? -1 : static_cast<double>(random.integer(0, 4));
    }
    Shape integers;
    for (int i = 0; i < loaded.given_integers; ++i) {
      const Json number = any_number(random);
      integers.push_back(number.is_number_integer() ? number.get<std::int64_t>() : 2);
    }
    try {
      (void)run(program, inputs, random.coin() ? 1 : 2, integers);
    } catch (const ProgramError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("fused program: "));
    }
  }
}

TEST(MutatedProgram, RunsOrIsRefusedWithASentence) {
  set_memory_limit(64'000'000);
  const char* wanted = std::getenv("TSQ_MUTATIONS");  // NOLINT(concurrency-mt-unsafe)
  const auto cases = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 1500;
  unsigned ran = 0;
  for_random_cases(
      [&](Random& random) {
        const Model model = any_model(random);
        Json json = Json::parse(to_json(model.program));
        auto constants = model.constants;
        const auto faults = random.integer(0, 2);
        for (std::int64_t i = 0; i < faults; ++i) mutate(random, json);
        if (random.integer(0, 4) == 0) mutate_constants(random, constants);
        try {
          call(random, json.dump(), constants);
          ++ran;
        } catch (const ProgramError& error) {
          EXPECT_THAT(error.what(), testing::StartsWith("fused program: ")) << json.dump();
        }
      },
      cases);
  set_memory_limit(0);
  EXPECT_GT(ran, cases / 4);
}

}  // namespace mutated_program_test
}  // namespace tsq::runtime::test
