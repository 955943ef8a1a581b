// Calls with sizes, integers and tensors that no program was made for, and what a call may need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/custom_class.h>
#include <torch/script.h>
#include <tsq/runtime_library.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/available_memory.h"
#include "runtime/primitives/packed_weights.h"
#include "runtime/program/error.h"
#include "runtime/program/program_json.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace untrusted_call_test {

using testing::AllOf;
using testing::HasSubstr;
constexpr std::int64_t kMegabyte = 1'000'000;

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Holds for a test.
struct MemoryLimit {
  explicit MemoryLimit(std::int64_t bytes) { set_memory_limit(bytes); }
  ~MemoryLimit() { set_memory_limit(0); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

Tensor ones(const Shape& sizes) {
  return {Dtype::F32, sizes, std::vector<double>(static_cast<std::size_t>(elements_of(sizes)), 1)};
}

/// An operation whose size is the first integer of a call, and a function after it.
Writer sized(Operation operation) {
  Writer writer;
  writer.model.program.given_integers = 1;
  const int input = writer.input({});
  const Extent given = writer.integer({.kind = IntegerKind::Given});
  for (auto* extents : {&operation.shape, &operation.size}) {
    for (auto& extent : *extents) {
      if (extent == Extent(-7)) extent = given;
    }
  }
  operation.inputs = {input};
  const int made = writer.add(operation, {});
  writer.returns({writer.add(
      {.kind = Kind::Activation, .inputs = {made}, .post_ops = {{.kind = PostOpKind::Exp}}}, {})});
  return writer;
}

std::string fault_of(const Writer& writer, const Shape& sizes, std::int64_t integer) {
  LoadedProgram program(writer.model);
  return refusal([&] { (void)run(program, {ones(sizes)}, 1, {integer}); });
}

TEST(UntrustedCall, IntegersThatMakeSizesAreRefusedBeforeAnythingIsBuilt) {
  const MemoryLimit limit(2000 * kMegabyte);
  const auto expand = sized({.kind = Kind::Expand, .shape = {-7, 3}});
  EXPECT_EQ(fault_of(expand, {3}, 5), "");
  EXPECT_THAT(fault_of(expand, {3}, -5), HasSubstr("operation 0 (expand)"));
  for (const int bits : {31, 40, 57}) {
    EXPECT_THAT(fault_of(expand, {3}, std::int64_t{1} << bits),
                AllOf(HasSubstr("this call needs "),
                      HasSubstr(" GB, and the limit is 2.0 GB: call the program with smaller "
                                "tensors, or raise RunnerOptions::memory_limit")));
  }
  EXPECT_THAT(fault_of(expand, {3}, std::int64_t{1} << 58), HasSubstr("which no tensor can be"));
  EXPECT_THAT(fault_of(expand, {3}, std::int64_t{1} << 62), HasSubstr("which no tensor can be"));
  const auto reshape = sized({.kind = Kind::Reshape, .shape = {-7, -1}});
  EXPECT_EQ(fault_of(reshape, {6}, 2), "");
  EXPECT_THAT(fault_of(reshape, {6}, std::int64_t{1} << 58), HasSubstr("[6] does not fill its shape"));
  EXPECT_THAT(fault_of(reshape, {6}, 0), HasSubstr("[6] does not fill its shape"));
}

TEST(UntrustedCall, ImagesThatNeedTooMuchAreRefusedBeforeTheirTablesAreBuilt) {
  const MemoryLimit limit(2000 * kMegabyte);
  for (const Kind kind : {Kind::ResizeNearest, Kind::ResizeBilinear, Kind::AdaptiveMaxPool}) {
    const auto writer = sized({.kind = kind, .size = {-7, -7}});
    EXPECT_EQ(fault_of(writer, {1, 2, 4, 4}, 9), "");
    EXPECT_THAT(fault_of(writer, {1, 2, 4, 4}, 131072),
                HasSubstr("this call needs 137.4 GB, and the limit is 2.0 GB"));
    EXPECT_THAT(fault_of(writer, {1, 2, 4, 4}, std::int64_t{1} << 40),
                HasSubstr("which is too large for an image"));
  }
  // The table of the nearest pixels is larger than the bytes that they are.
  Writer writer;
  const Value bytes{.dtype = Dtype::U8, .scale = 1};
  const int input = writer.input(bytes);
  writer.returns(
      {writer.add({.kind = Kind::ResizeNearest, .inputs = {input}, .size = {20000, 20000}}, bytes)});
  LoadedProgram program(writer.model);
  EXPECT_THAT(refusal([&] {
                (void)run(program, {{Dtype::U8, {1, 1, 4, 4}, std::vector<double>(16)}});
              }),
              HasSubstr("operation 0 (resize_nearest): this call needs 3.2 GB"));
}

TEST(UntrustedCall, TheLimitCountsAllThatACallNeeds) {
  LoadedProgram program(small_network(1));
  const auto image = ones({1, 3, 64, 64});
  const auto needed = compile(program, {image})->arena_bytes() + 40;
  const MemoryLimit limit(needed - 1);
  LoadedProgram limited(small_network(1));
  EXPECT_THAT(refusal([&] { (void)run(limited, {image}); }), HasSubstr("the call: this call needs 0.0"));
  set_memory_limit(needed + 1000);
  EXPECT_EQ(refusal([&] { (void)run(limited, {image}); }), "");
}

TEST(UntrustedCall, IdleArenasAreFreedBeforeACallIsRefused) {
  LoadedProgram program(small_network(1));
  const auto compiled = compile(program, {ones({1, 3, 64, 64})});
  (void)run(*compiled, {ones({1, 3, 64, 64})});
  const MemoryLimit limit(1);
  EXPECT_NE(refusal([&] { (void)run(program, {ones({1, 3, 32, 32})}); }), "");
  EXPECT_EQ(compiled->free_idle_arenas(), 0);
  (void)run(*compiled, {ones({1, 3, 64, 64})});
  EXPECT_EQ(compiled->free_idle_arenas(), compiled->arena_bytes());
}

TEST(UntrustedCall, TheLimitIsSetThroughTheHeaderOfPrograms) {
  tsq::set_memory_limit(12345);
  EXPECT_EQ(memory_limit(), 12345);
  tsq::set_memory_limit(0);
  EXPECT_GT(memory_limit(), kMegabyte);
  EXPECT_LT(memory_limit(), available_memory());
}

TEST(UntrustedCall, WeightsThatNoCompiledProgramReadsAreNotKeptForEver) {
  PackedWeights weights;
  std::shared_ptr<const void> used;
  for (int i = 0; i < 40; ++i) {
    const auto packed = weights.get(std::make_shared<const int>(i), dnnl::memory::data_type::f32,
                                    std::int64_t{1} << 25, [](void* /*packed*/) {});
    if (i == 0) used = packed;
    EXPECT_LE(weights.size(), 11U);
  }
  EXPECT_EQ(used.use_count(), 2);
}

/// A folder that holds files like those of /proc and /sys.
class AvailableMemory : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  /// Beside what the allocator of this process keeps, a few megabytes.
  void expect_kilobytes(std::int64_t kilobytes) const {
    const std::filesystem::path nothing = root_ / "nothing";
    std::filesystem::create_directories(nothing / "proc");
    std::ofstream(nothing / "proc/meminfo") << "MemAvailable: 0 kB\n";
    EXPECT_NEAR(static_cast<double>(available_memory(root_) - available_memory(nothing)),
                static_cast<double>(kilobytes) * 1024, 65536);
  }

 private:
  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("tsq_available_" + std::to_string(getpid()));
};

TEST_F(AvailableMemory, IsThatOfTheMachine) { expect_kilobytes(8000); }

TEST_F(AvailableMemory, IsAtMostThatOfItsGroupsOfVersion2) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/memory.max", "4096000\n");
  write("sys/fs/cgroup/outer/memory.current", "3072000\n");
  write("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 1000000\nactive_file 24000\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/inner/memory.current", "1024\n");
  expect_kilobytes(2000);
}

TEST_F(AvailableMemory, IsAtMostThatOfItsGroupOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n");
  // What a container sees: its own group is the topmost one.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3072000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024000\n");
  expect_kilobytes(2000);
}

TEST(UntrustedCall, RowsOfEmbeddingsAreCheckedBeforeTheyAreRead) {
  Random random(1);
  Writer writer;
  Operation embedding{.kind = Kind::Embedding, .inputs = {writer.input({.dtype = Dtype::I64})}};
  embedding.weight = writer.constant(random_tensor(random, Dtype::F32, {5, 2}));
  writer.returns({writer.add(embedding, {})});
  LoadedProgram program(writer.model);
  for (const double row : {-1.0, 5.0, 0x1p40, -0x1p63}) {
    EXPECT_THAT(refusal([&] {
                  (void)run(program, {{Dtype::I64, {2}, {0, row}}});
                }),
                HasSubstr("of an embedding: rows are those from 0 to 4"));
  }
  EXPECT_EQ(run(program, {{Dtype::I64, {1}, {4}}})[0].sizes, (Shape{1, 2}));
}

TEST(UntrustedCall, AttentionOverRepeatedKeysIsCountedInCheckedArithmetic) {
  const MemoryLimit limit(2000 * kMegabyte);
  Writer writer;
  writer.model.program.given_integers = 1;
  const int query = writer.input({});
  const Extent given = writer.integer({.kind = IntegerKind::Given});
  const int keys = writer.add({.kind = Kind::Expand, .inputs = {query}, .shape = {given, 4}}, {});
  writer.returns({writer.add({.kind = Kind::Attention, .inputs = {query, keys, keys}}, {})});
  EXPECT_EQ(fault_of(writer, {1, 4}, 3), "");
  for (const int bits : {32, 40, 56})
    EXPECT_THAT(fault_of(writer, {1, 4}, std::int64_t{1} << bits),
                HasSubstr("operation 1 (attention): this call needs"));
}

/// A program as TorchScript sees it.
class TorchProgram {
 public:
  TorchProgram(const Model& model, const std::vector<at::Tensor>& constants)
      : type_(torch::getCustomClass("__torch__.torch.classes.tsq.Program")),
        object_(c10::ivalue::Object::create(type_, 1)) {
    type_->getMethod("__init__")({object_, to_json(model.program), c10::List<at::Tensor>(constants)});
  }
  at::Tensor operator()(const std::vector<at::Tensor>& tensors,
                        const std::vector<std::int64_t>& integers = {}) {
    return type_
        ->getMethod("forward")({object_, c10::List<at::Tensor>(tensors), c10::List<std::int64_t>(integers)})
        .toTensorVector()
        .front();
  }

 private:
  c10::ClassTypePtr type_;
  c10::IValue object_;
};

/// x plus the first constant.
Model sum() {
  Writer writer;
  const int input = writer.input({});
  const int constant = writer.value({.constant = 0});
  writer.returns({writer.add({.kind = Kind::Add, .inputs = {input, constant}}, {})});
  return writer.model;
}

struct TensorRow {
  at::Tensor tensor;
  std::string sentence;
};

std::vector<TensorRow> strange_tensors() {
  const auto plain = torch::tensor({1.0F, -2.0F});
  return {{at::Tensor(), "it is undefined: give a tensor"},
          {plain.to_sparse(), "its layout is not strided: give a dense tensor"},
          {plain.to(at::kMeta), "it is on meta: move it to the CPU"},
          {at::quantize_per_tensor(plain, 0.1, 0, at::kQInt8), "it is of dtype QInt8: give float32"},
          {at::complex(plain, plain).conj(), "it is of dtype ComplexFloat"},
          {plain.to(at::kDouble), "it is of dtype Double"},
          {at::_efficientzerotensor({2}), "it holds no memory"},
          {plain.expand({std::int64_t{1} << 40, 2}), "this call needs 8796.0 GB"},
          {plain.to(at::kInt).expand({std::int64_t{1} << 40, 2}), "this call needs 8796.0 GB"}};
}

TEST(UntrustedCall, TensorsThatHoldNoPlainNumbersAreRefused) {
  const MemoryLimit limit(2000 * kMegabyte);
  const auto plain = torch::tensor({1.0F, -2.0F});
  TorchProgram program(sum(), {plain});
  for (const auto& [tensor, sentence] : strange_tensors()) {
    EXPECT_THAT(refusal([&] { (void)program({tensor}); }), HasSubstr("the call, tensor 0: " + sentence));
    EXPECT_THAT(refusal([&] { const TorchProgram other(sum(), {tensor}); }),
                HasSubstr("constant 0: " + sentence));
  }
  EXPECT_TRUE(program({plain}).equal(plain + plain));
}

TEST(UntrustedCall, CountsOfTensorsAndIntegersAreChecked) {
  const auto plain = torch::tensor({1.0F, -2.0F});
  TorchProgram program(sum(), {plain});
  EXPECT_THAT(refusal([&] { (void)program({}); }), HasSubstr("the call: it has 0 tensors: give 1"));
  EXPECT_THAT(refusal([&] { (void)program(std::vector<at::Tensor>(100'000, plain)); }),
              HasSubstr("it has 100000 tensors: give 1"));
  EXPECT_THAT(refusal([&] { (void)program({plain}, {1}); }), HasSubstr("it has 1 integers: give 0"));
}

TEST(UntrustedCall, NegatedViewsAndAnyStridesHaveTheirOwnNumbers) {
  const auto x = torch::randn({6, 4});
  TorchProgram program(sum(), {at::_neg_view(x)});
  EXPECT_TRUE(program({at::_neg_view(x)}).equal(-x - x));
  EXPECT_TRUE(program({x.detach().requires_grad_()}).equal(x - x));
  TorchProgram transposed(sum(), {x.t().contiguous().t()});
  EXPECT_TRUE(transposed({x.repeat({2, 2}).slice(0, 0, 12, 2).slice(1, 0, 4)})
                  .equal(x.repeat({2, 2}).slice(0, 0, 12, 2).slice(1, 0, 4) + x));
}

TEST(UntrustedCall, StridesOfOneElementMayBeAnyNumber) {
  Writer writer;
  writer.model.program.given_integers = 1;
  const int input = writer.input({});
  const Extent given = writer.integer({.kind = IntegerKind::Given});
  const Extent next = writer.integer({.kind = IntegerKind::Add, .left = given, .right = 1});
  const int slice =
      writer.add({.kind = Kind::Slice, .inputs = {input}, .axis = 0, .begin = given, .end = next}, {});
  writer.returns({writer.add(
      {.kind = Kind::Activation, .inputs = {slice}, .post_ops = {{.kind = PostOpKind::Relu}}}, {})});
  TorchProgram program(writer.model, {});
  const auto x = torch::tensor({1.0F, 2.0F, 3.0F}).as_strided({1, 3}, {std::int64_t{1} << 62, 1});
  EXPECT_TRUE(program({x}, {0}).equal(x));
}

}  // namespace untrusted_call_test
}  // namespace tsq::runtime::test
