#include "io/devices.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <regex>
#include <set>
#include <string_view>

namespace tsq::io {
namespace {

using torch::jit::Block;
using torch::jit::Module;
using torch::jit::Node;

/// PyTorch's names of accelerators. What a model computes on "meta" it computes nowhere, that stays.
constexpr const char* kDevice =
    "(?:cuda|hip|xpu|mps|hpu|xla|npu|mtia|ipu|privateuseone|vulkan)(?::\\d{1,3})?";

bool is_foreign(const std::string& device) {
  static const std::regex kForeign(kDevice);
  return std::regex_match(device, kForeign);
}

/// Pickles hold a string as its length in four bytes after an X.
void add_pickled(std::string_view bytes, std::set<std::string>& devices) {
  constexpr std::size_t kHeader = 5;
  constexpr std::size_t kLongest = 24;
  for (auto at = bytes.find('X'); at != std::string_view::npos && at + kHeader < bytes.size();
       at = bytes.find('X', at + 1)) {
    const auto length = static_cast<unsigned char>(bytes[at + 1]);
    if (length > kLongest || bytes.substr(at + 2, 3) != std::string_view("\0\0\0", 3)) continue;
    const std::string text(bytes.substr(at + kHeader, length));
    if (is_foreign(text)) devices.insert(text);
  }
}

void add_written(const std::string& source, std::set<std::string>& devices) {
  // PyTorch's own code compares with the names of devices; a name that is used is written as a device.
  static const std::regex kConstant(std::string("torch\\.device\\(\"(") + kDevice + ")\"");
  devices.insert(std::sregex_token_iterator(source.begin(), source.end(), kConstant, 1),
                 std::sregex_token_iterator());
  static const std::regex kCall(R"(torch\.cuda\()");
  if (std::regex_search(source, kCall)) devices.insert("cuda");
}

bool is_text(const Node& node) {
  return node.kind() == c10::prim::Constant && node.hasAttribute(c10::attr::value) &&
         node.kindOf(c10::attr::value) == torch::jit::AttributeKind::s;
}

bool names_device(const Node& node) {
  if (!is_text(node) || !is_foreign(node.s(c10::attr::value))) return false;
  if (node.output()->type()->kind() == c10::TypeKind::DeviceObjType) return true;
  // A string becomes a device where an operator takes one.
  for (const torch::jit::Use& use : node.output()->uses()) {
    if (use.user->kind() == c10::Symbol::fromQualString("aten::device")) return true;
  }
  return false;
}

void move_to_cpu(Block& block) {
  static const c10::Symbol kCuda = c10::Symbol::fromQualString("aten::cuda");
  static const c10::Symbol kCpu = c10::Symbol::fromQualString("aten::cpu");
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node* node = *it++;
    for (Block* inner : node->blocks()) move_to_cpu(*inner);
    if (names_device(*node)) node->s_(c10::attr::value, "cpu");
    if (node->kind() == kCuda) {
      node->replaceWithNewSymbol(kCpu);
      node->destroy();
    }
  }
}

}  // namespace

std::vector<std::string> devices_in_archive(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  std::set<std::string> devices;
  for (const std::string& record : reader.getAllRecords()) {
    const bool is_source = record.starts_with("code/") && record.ends_with(".py");
    if (!is_source && record != "data.pkl" && record != "constants.pkl") continue;
    const auto [data, size] = reader.getRecord(record);
    const std::string bytes(static_cast<const char*>(data.get()), size);
    is_source ? add_written(bytes, devices) : add_pickled(bytes, devices);
  }
  return {devices.begin(), devices.end()};
}

void move_to_cpu(Module& model) {
  for (torch::jit::Function* function : model._ivalue()->compilation_unit()->get_functions()) {
    if (auto* graph_function = torch::jit::tryToGraphFunction(*function))
      move_to_cpu(*graph_function->graph()->block());
  }
  for (Module module : model.modules()) {
    for (const auto& attribute : module.named_attributes(/*recurse=*/false)) {
      if (attribute.value.isDevice() && is_foreign(attribute.value.toDevice().str()))
        module.setattr(attribute.name, c10::Device(at::kCPU));
    }
  }
}

}  // namespace tsq::io
