#include "io/numpy_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/figures.h"
#include "runtime/available_memory.h"

namespace tsq::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// As numpy itself reads by default.
constexpr std::size_t kLongestHeader = 10000;

/// A source of bytes: a file or a member of an archive. Returns false when there are fewer than asked for.
using ReadBytes = std::function<bool(char* to, std::size_t count)>;

[[noreturn]] void refuse(const std::string& what, const std::string& problem,
                         const std::string& remedy = {}) {
  throw Error(ErrorCode::BadData, fmt::format("{} {}", what, problem), remedy);
}

struct DType {
  std::string_view numpy;
  c10::ScalarType torch;
};
constexpr std::array<DType, 10> kDTypes{{{"<f4", c10::ScalarType::Float},
                                         {"<f8", c10::ScalarType::Double},
                                         {"<f2", c10::ScalarType::Half},
                                         {"|u1", c10::ScalarType::Byte},
                                         {"|i1", c10::ScalarType::Char},
                                         {"<i2", c10::ScalarType::Short},
                                         {"<i4", c10::ScalarType::Int},
                                         {"<i8", c10::ScalarType::Long},
                                         {"|b1", c10::ScalarType::Bool},
                                         {"<c8", c10::ScalarType::ComplexFloat}}};

struct Header {
  c10::ScalarType dtype;
  bool column_major;
  std::vector<int64_t> shape;
};

c10::ScalarType parse_dtype(const std::string& what, std::string_view descr) {
  for (const DType& dtype : kDTypes) {
    if (dtype.numpy == descr) return dtype.torch;
  }
  if (descr.starts_with('|') && descr.ends_with('O')) {
    refuse(what, "holds Python objects (dtype object)", "save arrays of one numeric dtype and one shape");
  }
  refuse(what, fmt::format("has dtype '{}', which a tensor does not have", descr),
         "save it with array.astype('float32') or another little-endian dtype");
}

/// What follows `'key':` in a header, which is a dict as Python prints it; empty where there is no such key.
std::string_view value_in(std::string_view header, std::string_view key) {
  constexpr std::string_view kBetween = " \t:";
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view after = header.substr(at + key.size());
  return after.substr(std::min(after.find_first_not_of(kBetween), after.size()));
}

/// What stands between two letters at the beginning of a text; none where the text does not begin so.
std::optional<std::string_view> within(std::string_view text, char open, char close) {
  if (!text.starts_with(open)) return std::nullopt;
  const std::size_t end = text.find(close, 1);
  return end == std::string_view::npos ? std::nullopt : std::optional(text.substr(1, end - 1));
}

/// "3, 224, 224": numbers alone. Older versions of numpy write "3L".
std::optional<std::vector<int64_t>> sizes_in(std::string_view text) {
  std::vector<int64_t> sizes;
  while (!text.empty()) {
    const std::string_view number = text.substr(0, text.find(','));
    text.remove_prefix(std::min(number.size() + 1, text.size()));
    const std::size_t first = number.find_first_not_of(" \t\n");
    if (first == std::string_view::npos) continue;
    int64_t size = 0;
    const char* end = number.data() + number.size();
    const auto [rest, error] = std::from_chars(number.data() + first, end, size);
    if (error != std::errc() || size < 0) return std::nullopt;
    if (std::string_view(rest, static_cast<std::size_t>(end - rest)).find_first_not_of("L \t\n") !=
        std::string_view::npos)
      return std::nullopt;
    sizes.push_back(size);
  }
  return sizes;
}

/// Empty arrays count as if their empty axes had one entry: LibTorch multiplies the others.
std::vector<int64_t> parse_shape(const std::string& what, std::string_view text) {
  constexpr std::size_t kMostAxes = 64;
  constexpr int64_t kMostElements = int64_t{1} << 48;
  const std::optional<std::vector<int64_t>> sizes = sizes_in(text);
  int64_t elements = 1;
  bool is_possible = sizes && sizes->size() <= kMostAxes;
  for (const int64_t size : sizes.value_or(std::vector<int64_t>())) {
    is_possible = is_possible && !__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements) &&
                  elements <= kMostElements;
  }
  if (!is_possible) {
    refuse(what, fmt::format("claims the shape ({}), which no tensor can have",
                             text.size() < 200 ? text : fmt::format("{}…", text.substr(0, 200))));
  }
  return *sizes;
}

Header parse_header(const std::string& what, std::string_view text) {
  const std::string_view dtype = value_in(text, "'descr'");
  const std::string_view order = value_in(text, "'fortran_order'");
  if (dtype.starts_with('[')) {
    refuse(what, "holds records (a structured dtype)", "save one array for each field");
  }
  const std::optional<std::string_view> name = within(dtype, '\'', '\'');
  const std::optional<std::string_view> shape = within(value_in(text, "'shape'"), '(', ')');
  if (!name || !shape || !(order.starts_with("True") || order.starts_with("False"))) {
    refuse(what, "has a header that names no dtype, order and shape", "write it with numpy.save");
  }
  return {.dtype = parse_dtype(what, *name),
          .column_major = order.starts_with("True"),
          .shape = parse_shape(what, *shape)};
}

Header read_header(const std::string& what, const ReadBytes& read) {
  std::array<char, 8> start{};
  if (!read(start.data(), start.size()) || std::string_view(start.data(), 6) != kMagic) {
    refuse(what, "is not a numpy array", "write it with numpy.save");
  }
  const int version = start[6];
  std::array<unsigned char, 4> length{};
  const std::size_t width = version == 1 ? 2 : 4;
  if (!read(reinterpret_cast<char*>(length.data()), width)) refuse(what, "ends within its header");
  const std::size_t size = length[0] | length[1] << 8U | length[2] << 16U | std::size_t{length[3]} << 24U;
  if (version < 1 || version > 3 || size > kLongestHeader) {
    refuse(what,
           fmt::format("has a header of version {} and {} bytes, which numpy does not write", version, size));
  }
  std::string text(size, '\0');
  if (!read(text.data(), size)) refuse(what, "ends within its header");
  return parse_header(what, text);
}

/// `available` is the number of bytes from the array's first byte to the end of its file.
at::Tensor read_array(const std::string& what, const ReadBytes& read,
                      const std::function<uint64_t()>& available) {
  const Header header = read_header(what, read);
  std::vector<int64_t> stored = header.shape;
  if (header.column_major) std::reverse(stored.begin(), stored.end());
  uint64_t bytes = c10::elementSize(header.dtype);
  for (const int64_t size : stored) bytes *= static_cast<uint64_t>(size);
  const uint64_t left = available();
  if (left != bytes) {
    refuse(what, fmt::format("holds {} bytes of numbers where its header says {}", left, bytes),
           left < bytes ? "it was cut short; write it again" : "write one array for each file");
  }
  if (const auto most = static_cast<uint64_t>(runtime::memory_limit()); bytes > most) {
    refuse(what,
           fmt::format("holds {}, and this process may use {}", readable_size(bytes), readable_size(most)),
           "cut it into several files, or use a machine with more memory");
  }
  at::Tensor tensor = at::empty(stored, at::TensorOptions(header.dtype));
  if (bytes > 0 && !read(static_cast<char*>(tensor.data_ptr()), bytes)) {
    refuse(what, "could not be read to its end");
  }
  if (!header.column_major) return tensor;
  std::vector<int64_t> axes(stored.size());
  std::iota(axes.rbegin(), axes.rend(), int64_t{0});
  return tensor.permute(axes).contiguous();
}

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using Member = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

Archive open_archive(const std::string& path) {
  int code = 0;
  return {zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard};
}

/// Whole arrays of zeros are packed a thousandfold, other numbers rarely tenfold: a small file is not to fill
/// the memory.
void check_unpacked(zip_t* archive, const std::string& path) {
  constexpr uint64_t kAlways = uint64_t{128} << 20U;
  constexpr uint64_t kMostTimes = 100;
  const uint64_t most = std::min(std::max(kAlways, kMostTimes * std::filesystem::file_size(path)),
                                 static_cast<uint64_t>(runtime::memory_limit()));
  uint64_t unpacked = 0;
  const zip_int64_t members = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < members; ++i) {
    zip_stat_t facts{};
    if (zip_stat_index(archive, i, 0, &facts) == 0) unpacked += std::min(facts.size, most + 1);
    if (unpacked > most) {
      refuse(fmt::format("'{}'", path),
             fmt::format("becomes more than {} when it is unpacked", readable_size(most)),
             "write it with numpy.savez, which does not pack, or cut it into several files");
    }
  }
}

at::Tensor read_member(zip_t* archive, zip_int64_t index, const std::string& what) {
  zip_stat_t stat{};
  const Member member(zip_fopen_index(archive, index, 0), zip_fclose);
  if (zip_stat_index(archive, index, 0, &stat) != 0 || !member) {
    refuse(what, fmt::format("cannot be unpacked: {}", zip_strerror(archive)));
  }
  uint64_t done = 0;
  const auto read = [&](char* to, std::size_t count) {
    const zip_int64_t got = zip_fread(member.get(), to, count);
    if (got < 0) {
      refuse(what, fmt::format("cannot be unpacked: {}", zip_file_strerror(member.get())),
             "write the archive again");
    }
    done += static_cast<uint64_t>(got);
    return static_cast<std::size_t>(got) == count;
  };
  at::Tensor array = read_array(what, read, [&] { return stat.size - std::min<uint64_t>(stat.size, done); });
  char beyond = 0;  // libzip compares the checksum when it meets the end
  read(&beyond, 1);
  return array;
}

}  // namespace

bool is_npy(const std::string& path) {
  std::array<char, 6> start{};
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == kMagic;
}

bool is_npz(const std::string& path) {
  const Archive archive = open_archive(path);
  if (!archive) return false;
  const zip_int64_t members = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < members; ++i) {
    const char* name = zip_get_name(archive.get(), i, 0);
    if (name == nullptr || !std::string_view(name).ends_with(".npy")) return false;
  }
  return members > 0;
}

at::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const auto read = [&](char* to, std::size_t count) {
    return static_cast<bool>(file.read(to, static_cast<std::streamsize>(count)));
  };
  return read_array(fmt::format("'{}'", path), read,
                    [&] { return std::filesystem::file_size(path) - static_cast<uint64_t>(file.tellg()); });
}

NamedArrays read_npz(const std::string& path) {
  const Archive archive = open_archive(path);
  if (!archive) refuse(fmt::format("'{}'", path), "is not a zip archive", "write it with numpy.savez");
  check_unpacked(archive.get(), path);
  NamedArrays arrays;
  const zip_int64_t members = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < members; ++i) {
    const char* stored_name = zip_get_name(archive.get(), i, 0);
    std::string name = stored_name == nullptr ? std::string() : stored_name;
    name = name.substr(0, name.size() - std::min<std::size_t>(4, name.size()));
    arrays.emplace_back(name, read_member(archive.get(), i, fmt::format("array '{}' of '{}'", name, path)));
  }
  return arrays;
}

}  // namespace tsq::io
