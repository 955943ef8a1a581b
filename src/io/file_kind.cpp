#include "io/file_kind.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string_view>

#include "base/libtorch_error.h"

namespace tsq::io {
namespace {

constexpr std::string_view kScript =
    "load it in Python and save torch.jit.script(model) or torch.jit.trace(model, example)";

std::string beginning_of(const std::string& path) {
  constexpr std::streamsize kEnough = 512;
  std::string bytes(kEnough, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), kEnough);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// The last bytes of a file, `most` of them where it has more.
std::string end_of(const std::string& path, std::streamoff most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  const std::streamoff begin = std::max<std::streamoff>(0, size - most);
  std::string bytes(static_cast<std::size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// A zip archive ends with its directory, whose end record has this mark; a comment may follow it.
bool has_zip_directory(const std::string& path) {
  constexpr std::streamoff kMostComment = 65557;
  return end_of(path, kMostComment).find("PK\x05\x06") != std::string::npos;
}

/// The class or function that a pickle names first ("collections.OrderedDict"), before any other content; the
/// operation itself ("}", "]") of a plain container.
std::string root_of_pickle(std::string_view bytes) {
  constexpr char kProtocol = '\x80';
  constexpr std::size_t kHeader = 2;
  if (bytes.size() < kHeader || bytes.front() != kProtocol) return {};
  bytes.remove_prefix(kHeader);
  // Protocol 4 puts frames and memos between.
  if (bytes.starts_with('\x95') && bytes.size() > 9) bytes.remove_prefix(9);
  if (!bytes.starts_with('c')) return std::string(bytes.substr(0, 1));
  const auto module_end = bytes.find('\n');
  if (module_end == std::string_view::npos) return {};
  const auto name_end = bytes.find('\n', module_end + 1);
  if (name_end == std::string_view::npos) return {};
  return std::string(bytes.substr(1, module_end - 1)) + "." +
         std::string(bytes.substr(module_end + 1, name_end - module_end - 1));
}

FileKind kind_of_pickle(const std::string& root) {
  if (root == "collections.OrderedDict") {
    return {.what = "a state_dict of torch.save: weights without the model's code",
            .remedy = "load it into the model in Python and save torch.jit.script(model)"};
  }
  if (root.starts_with("torch._utils._rebuild") || root.starts_with("torch._tensor."))
    return {.what = "a tensor, or tensors, of torch.save",
            .remedy = "give the file that torch.jit.save wrote"};
  if (root == "}")
    return {.what = "a dict of torch.save, perhaps a checkpoint: weights without the model's code",
            .remedy = "load its weights into the model in Python and save torch.jit.script(model)"};
  if (root == "]" || root == "(" || root == ")" || root.starts_with("torch.jit._pickle."))
    return {.what = "a list or tuple of torch.save, probably data",
            .remedy = "give the file that torch.jit.save wrote"};
  if (!root.empty() && root.find('.') != std::string::npos)
    return {.what = "an nn.Module of torch.save (" + root + "), which only Python can read",
            .remedy = std::string(kScript)};
  return {.what = "a file of torch.save", .remedy = std::string(kScript)};
}

/// LibTorch's reader takes archives of one folder alone; the names of others stand in the bytes of the
/// directory.
std::string directory_of_zip(const std::string& path) {
  constexpr std::streamoff kEnough = 1 << 20;
  const std::string bytes = end_of(path, kEnough);
  const auto directory = bytes.find("PK\x01\x02");
  return directory == std::string::npos ? std::string() : bytes.substr(directory);
}

FileKind kind_of_zip(const std::string& path) {
  if (!has_zip_directory(path))
    return {.what = "an archive that is cut short or damaged", .remedy = "copy, download or export it again"};
  const std::string names = directory_of_zip(path);
  const auto has = [&](std::string_view part) { return names.find(part) != std::string::npos; };
  if (has("archive_format") || has("serialized_exported_program.json") || has("models/model.json") ||
      has("/aotinductor/"))
    return {.what = "a program of torch.export (.pt2)",
            .remedy = "give the TorchScript file: torch.jit.script or torch.jit.trace of the same model"};
  if (has("constants.pkl") && has("/code/")) return {};
  if (has(".npy"))
    return {.what = "numpy's data (.npz)", .remedy = "give the file that torch.jit.save wrote"};
  if (has("keras")) return {.what = "a Keras model", .remedy = "tsq reads TorchScript models only"};
  if (has(".data/extern_modules"))
    return {.what = "a torch.package, which only Python can read", .remedy = std::string(kScript)};
  if (!has("data.pkl"))
    return {.what = "a zip archive without a model", .remedy = "give a file of torch.jit.save"};
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    const auto [data, size] = reader.getRecord("data.pkl");
    return kind_of_pickle(root_of_pickle({static_cast<const char*>(data.get()), size}));
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return kind_of_pickle({});
  }
}

bool has_extension(const std::string& path, std::string_view extension) {
  std::string lower = path;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.ends_with(extension);
}

/// A ModelProto begins with the version of its format (field 1, a small number), then another of its fields.
bool is_onnx(const std::string& path, std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != '\x08' || bytes[1] <= 0 || bytes[1] > 64) return false;
  return has_extension(path, ".onnx") || bytes.find("onnx") != std::string_view::npos ||
         bytes.find("pytorch") != std::string_view::npos || bytes[2] == '\x12' || bytes[2] == '\x3a';
}

/// The length of the header in 8 bytes, then the header, which is JSON.
bool is_safetensors(std::string_view bytes) {
  constexpr std::size_t kLength = 8;
  return bytes.size() > kLength + 1 && bytes[6] == '\0' && bytes[7] == '\0' &&
         bytes.substr(kLength).starts_with('{');
}

struct Mark {
  std::size_t at;
  std::string_view bytes;
  std::string_view what;
  std::string_view remedy;
};
constexpr std::string_view kTorchScriptOnly = "tsq reads TorchScript models only";
constexpr std::array kMarks{
    Mark{0, "version https://git-lfs", "a pointer of Git LFS in place of the model",
         "fetch it with 'git lfs pull'"},
    Mark{0, "<!DOCTYPE", "a page of HTML, perhaps of a download that failed", "download the model again"},
    Mark{0, "<html", "a page of HTML, perhaps of a download that failed", "download the model again"},
    Mark{0, "\x89HDF", "an HDF5 file, perhaps of Keras", kTorchScriptOnly},
    Mark{4, "TFL3", "a TensorFlow Lite model", kTorchScriptOnly},
    Mark{0, "\x93NUMPY", "numpy's data (.npy)", "give the file that torch.jit.save wrote"},
    Mark{0, "GGUF", "a GGUF file: weights without the model's code", kTorchScriptOnly},
    Mark{0, "\x1f\x8b", "compressed with gzip", "unpack it with gunzip"},
    Mark{257, "ustar", "a tar archive", "unpack it, or save the model with a newer PyTorch"},
    Mark{0, "<?xml", "XML, perhaps the structure of an OpenVINO model", kTorchScriptOnly},
};

}  // namespace

FileKind kind_of_file(const std::string& path) {
  const std::string bytes = beginning_of(path);
  if (bytes.starts_with("PK")) return kind_of_zip(path);
  for (const Mark& mark : kMarks) {
    if (bytes.size() > mark.at && std::string_view(bytes).substr(mark.at).starts_with(mark.bytes))
      return {.what = std::string(mark.what), .remedy = std::string(mark.remedy)};
  }
  if (is_safetensors(bytes)) {
    return {.what = "a safetensors file: weights without the model's code",
            .remedy = "load it into the model in Python and save torch.jit.script(model)"};
  }
  if (is_onnx(path, bytes)) {
    return {.what = "an ONNX model",
            .remedy = "give the TorchScript file: torch.jit.script or torch.jit.trace of the PyTorch model"};
  }
  if (bytes.starts_with("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9"))
    return {.what = "a file of torch.save in the format before PyTorch 1.6", .remedy = std::string(kScript)};
  if (bytes.starts_with('\x80')) return {.what = "a pickle of Python", .remedy = std::string(kScript)};
  return {};
}

}  // namespace tsq::io
