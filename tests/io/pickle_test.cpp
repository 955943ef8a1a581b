// What LibTorch's reader of pickles would trust is refused before it reads them.
#include <gmock/gmock.h>

#include <string>

#include "io/opcodes.h"
#include "io/pickle_walk.h"

namespace tsq::io {
namespace pickle_test {

using namespace std::string_literals;
using namespace testing::opcodes;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_fault(const std::string& bytes, const char* why) {
  EXPECT_THAT([&] { walk_pickle(bytes); }, ThrowsMessage<PickleFault>(HasSubstr(why)));
}

TEST(Pickle, ATensorNamesItsStorageAndTheBytesOfIt) {
  const PickleFacts facts = walk_pickle(pickle(tensor_of(storage(6), 0, {2, 3}, {3, 1})));
  EXPECT_TRUE(facts.is_whole);
  ASSERT_EQ(facts.storages.size(), 1U);
  EXPECT_EQ(facts.storages[0].key, "0");
  EXPECT_EQ(facts.storages[0].bytes, 24);
  EXPECT_EQ(facts.tensors, 24);
}

TEST(Pickle, TensorsAreAsLargeAsIfTheySharedNothing) {
  const PickleFacts facts = walk_pickle(
      pickle(tuple(tensor_of(storage(6), 0, {2, 3}, {3, 1}) + tensor_of(storage(1), 0, {1000}, {0}))));
  EXPECT_EQ(facts.tensors, 24 + 4000);
}

TEST(Pickle, ATensorLiesWithinItsStorage) {
  EXPECT_NO_THROW(walk_pickle(pickle(tensor_of(storage(6), 3, {3}, {1}))));
  EXPECT_NO_THROW(walk_pickle(pickle(tensor_of(storage(1), 0, {1000}, {0}))));
  EXPECT_NO_THROW(walk_pickle(pickle(tensor_of(storage(0), 0, {0, 4}, {4, 1}))));
  expect_fault(pickle(tensor_of(storage(6), 4, {3}, {1})), "reaches beyond its storage of 24 bytes");
  expect_fault(pickle(tensor_of(storage(6), 0, {2, 3}, {4, 1})), "reaches beyond its storage");
  expect_fault(pickle(tensor_of(storage(6), -1, {3}, {1})), "shape [3] with the strides [1]");
  expect_fault(pickle(tensor_of(storage(6), 2, {3}, {-1})), "shape [3] with the strides [-1]");
  expect_fault(pickle(tensor_of(storage(6), 0, {-3}, {1})), "shape [-3]");
  expect_fault(pickle(tensor_of(storage(6), 0, {2}, {1, 1})), "shape [2] with the strides [1, 1]");
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  expect_fault(pickle(tensor_of(storage(1), 0, {kLarge, kLarge}, {0, 0})), "leave 64 bits");
  expect_fault(pickle(tensor_of(storage(6), 0, {3}, {INT64_MAX})), "leave 64 bits");
  expect_fault(pickle(storage(INT64_MAX)), "leave 64 bits");
  expect_fault(pickle(storage(-1)), "a storage of -1 elements");
}

TEST(Pickle, ChannelsHaveAsManyScales) {
  const auto quantized = [](std::int64_t scales, std::int64_t axis) {
    const std::string numbers = tensor_of(storage(scales), 0, {scales}, {1});
    const std::string quantizer = tuple("ctorch\nper_channel_affine\n" + numbers + numbers + integer(axis));
    return pickle("ctorch._utils\n_rebuild_qtensor\n" +
                  tuple(storage(6) + integer(0) + sizes({2, 3}) + sizes({3, 1}) + quantizer + "\x89" + "N") +
                  "R");
  };
  EXPECT_TRUE(walk_pickle(quantized(2, 0)).is_whole);
  EXPECT_TRUE(walk_pickle(quantized(3, 1)).is_whole);
  EXPECT_THROW(walk_pickle(quantized(3, 0)), PickleFault);
  EXPECT_THROW(walk_pickle(quantized(2, 2)), PickleFault);
  EXPECT_THROW(walk_pickle(quantized(2, -1)), PickleFault);
}

TEST(Pickle, DTypesExist) {
  const auto of_dtype = [](const std::string& dtype) {
    return pickle(tuple(text("storage") + dtype + text("0") + text("cpu") + integer(1)) + "Q");
  };
  EXPECT_EQ(walk_pickle(of_dtype("ctorch\nQInt8Storage\n")).storages[0].bytes, 1);
  EXPECT_EQ(walk_pickle(of_dtype("ctorch\nDoubleStorage\n")).storages[0].bytes, 8);
  expect_fault(of_dtype(integer(200)), "a dtype that does not exist");
  expect_fault(of_dtype(integer(-1)), "a dtype that does not exist");
}

TEST(Pickle, TakesNoMoreFromItsStackThanIsThere) {
  for (const char* opcodes :
       {"t", "e", "u", "d", "l", "a", "s", "\x85", "\x87", "R", "b", "Q", "q\x01", "\x81"})
    EXPECT_THROW(walk_pickle(pickle(opcodes)), PickleFault) << opcodes;
  expect_fault(pickle("NN(\x86t"), "takes more values from its stack");  // what the mark lies on is gone
  expect_fault(pickle("h\x05"), "recalls what it has not remembered");
  expect_fault(pickle(integer(7) + ")R"), "builds what it has not named");
}

TEST(Pickle, EveryKeyHasAValue) {
  EXPECT_TRUE(walk_pickle(pickle("}(" + text("a") + "Nu")).is_whole);
  expect_fault(pickle("}(" + text("a") + "u"), "a key without a value");
  expect_fault(pickle("(" + text("a") + "d"), "a key without a value");
}

TEST(Pickle, NothingIsReservedThatTheFileDoesNotHold) {
  expect_fault(pickle("X\xff\xff\xff\x7f"), "cut short");
  expect_fault(pickle("Nr\xff\xff\xff\x7f"), "memo");
  expect_fault(pickle("G1234"), "cut short");
  expect_fault("\x80\x02N", "cut short");
}

TEST(Pickle, NoValueHoldsItself) {
  expect_fault(pickle("]q\0h\0a"s), "a value that holds itself");
  expect_fault(pickle("}q\0"s + text("a") + "h\0s"s), "a value that holds itself");
  expect_fault(pickle("]q\0(h\0ta"s), "a value that holds itself");
}

TEST(Pickle, ValuesNestNoDeeperThanTheyCanBeVisited) {
  std::string nested = "N";
  for (int i = 1; i < kDeepestPickle; ++i) nested += "\x85";
  EXPECT_TRUE(walk_pickle(pickle(nested)).is_whole);
  expect_fault(pickle(nested + "\x85"), "nests values deeper than 256 levels");
  expect_fault(pickle("]" + std::string(100000, '\x85')), "nests values deeper");
  const std::string type = std::string(1000, '[') + "int" + std::string(1000, ']');
  expect_fault(pickle("ctorch.jit._pickle\nrestore_type_tag\n" + tuple("]" + text(type)) + "R"),
               "nests a type");
}

TEST(Pickle, ValuesThatShareTheirPartsAreCountedAsOftenAsTheyAreVisited) {
  std::string doubled = "N";
  for (int i = 0; i < 40; ++i) doubled += "q\0h\0\x86"s;
  expect_fault(pickle(doubled), "holds more than 10000000 values");
}

TEST(Pickle, ContainersCountAsTheMemoryThatTheyTake) {
  expect_fault(pickle("]" + std::string(2'000'000, '}')), "holds more than 10000000 values");
}

TEST(Pickle, MarksAreNoMoreThanValuesNest) {
  EXPECT_TRUE(walk_pickle(pickle(std::string(100, '(') + std::string(100, 't'))).is_whole);
  expect_fault(pickle(std::string(1025, '(')), "opens more than 1024 values");
}

TEST(Pickle, WhatLibTorchRefusesItselfEndsTheWalk) {
  for (const std::string& opcodes : {"0"s, "I1\n"s, "\x8a\x01\x05"s, "c__main__\nevil\n"s, "NQ"s,
                                     "NN\x86N"
                                     "R"s})
    EXPECT_FALSE(walk_pickle(pickle(opcodes)).is_whole) << opcodes;
  EXPECT_FALSE(walk_pickle("\x80\x04N.").is_whole);
  EXPECT_FALSE(walk_pickle("(lp0\n.").is_whole);
}

/// A record of one position, `range`, in the text "hello".
std::string positions(const std::string& range) {
  const std::string table = tuple(text("hello") + text("model.py"));
  return pickle(
      tuple(text("FORMAT_WITH_STRING_TABLE") + table + tuple(tuple(integer(0) + range + integer(1)))));
}
std::string range(const std::string& pieces, std::int64_t file, std::int64_t start, std::int64_t end) {
  return tuple(tuple("](" + pieces + "e" + integer(file) + integer(1)) + integer(start) + integer(end));
}

TEST(SourcePositions, LieWithinTheirTexts) {
  EXPECT_NO_THROW(check_source_positions(positions(range(integer(0), 1, 0, 5))));
  EXPECT_NO_THROW(check_source_positions(positions(range(integer(0) + integer(1), 1, 0, 13))));
  for (const std::string& wrong :
       {range(integer(2), 1, 0, 1), range(integer(-1), 1, 0, 1), range(integer(0), 2, 0, 1),
        range(integer(0), -1, 0, 1), range(integer(0), 1, -1, 1), range(integer(0), 1, 3, 2),
        range(integer(0), 1, 0, 6), range("N", 1, 0, 1), integer(1), tuple("")}) {
    EXPECT_THAT([&] { check_source_positions(positions(wrong)); },
                ThrowsMessage<PickleFault>("does not hold source positions"));
  }
}

TEST(SourcePositions, AreATuple) {
  for (const std::string& wrong : {"N"s, ")"s, "]"s, tuple(text("FORMAT_WITH_STRING_TABLE"))})
    EXPECT_THROW(check_source_positions(pickle(wrong)), PickleFault);
}

}  // namespace pickle_test
}  // namespace tsq::io
