#include "io/checked_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/figures.h"
#include "base/libtorch_error.h"
#include "io/pickle_walk.h"
#include "runtime/available_memory.h"

namespace tsq::io {
namespace {

/// What records that are compressed may become together: LibTorch compresses code and source positions only.
constexpr std::uint64_t kMostUnpacked = std::uint64_t{128} << 20U;
/// Tensors may be larger than their storages, as one whose elements repeat (a bias that was expanded) and
/// several that share them (windows of a series) are: by so much together, or as much as is stored.
constexpr std::int64_t kMostRepeated = std::int64_t{16} << 30;

constexpr const char* kRemedy = "copy, download or export it again";

/// One archive, as LibTorch reads it.
class TorchArchive {
 public:
  TorchArchive(const std::string& path, ErrorCode code) : path_(path), code_(code), reader_(path) {}

  void check() {
    const bool is_no_model = code_ == ErrorCode::BadModel && !reader_.hasRecord("constants.pkl");
    if (is_no_model) return;  // LibTorch refuses it at once
    for (const std::string& record : reader_.getAllRecords()) {
      if (record.starts_with("code/") && record.ends_with(".debug_pkl"))
        look_at(record, [](std::string_view bytes) { check_source_positions(bytes); });
    }
    // Others it leaves alone: a trace keeps its inputs in one that has no storages.
    for (const std::string name : {"constants", "data"}) {
      if (reader_.hasRecord(name + ".pkl"))
        look_at(name + ".pkl", [&](std::string_view bytes) { check_pickle(name, bytes); });
    }
    check_memory();
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(code_, fmt::format("'{}' is damaged: {}", path_, problem), kRemedy);
  }

  template <typename Look>
  void look_at(const std::string& record, const Look& look) {
    const auto [data, size] = reader_.getRecord(record);
    try {
      look({static_cast<const char*>(data.get()), size});
    } catch (const PickleFault& fault) {
      fail(fmt::format("its record '{}' {}", record, fault.what()));
    }
  }

  /// Its storages lie in a folder of its name.
  void check_pickle(const std::string& folder, std::string_view bytes) {
    const PickleFacts facts = walk_pickle(bytes);
    std::int64_t stored = 0;
    for (const PickledStorage& storage : facts.storages) {
      stored += storage.bytes;
      check_storage(fmt::format("{}/{}", folder, storage.key), storage.bytes);
    }
    bytes_ += stored;
    shared_ = std::max(shared_, facts.tensors - stored);
  }

  void check_storage(const std::string& record, std::int64_t bytes) {
    if (!reader_.hasRecord(record)) return;  // LibTorch says so
    const std::size_t size = reader_.getRecordSize(record);
    if (static_cast<std::int64_t>(size) < bytes)
      fail(fmt::format("its record '{}' has {} bytes, and {} belong there", record, size, bytes));
  }

  void check_memory() const {
    const auto size = [](std::int64_t bytes) { return readable_size(static_cast<std::uint64_t>(bytes)); };
    if (const std::int64_t most = runtime::memory_limit(); bytes_ > most) {
      throw Error(code_,
                  fmt::format("'{}' holds tensors of {}, and this process may use {}", path_, size(bytes_),
                              size(most)),
                  "use a machine with more memory, or a file with smaller tensors");
    }
    if (const std::int64_t most = std::max(bytes_, kMostRepeated); shared_ > most) {
      throw Error(code_,
                  fmt::format("'{}' holds tensors that are {} larger than what is stored, because they share "
                              "or repeat it, and no more than {} are taken",
                              path_, size(shared_), size(most)),
                  "save fewer views of the same numbers");
    }
  }

  const std::string& path_;
  ErrorCode code_;
  caffe2::serialize::PyTorchStreamReader reader_;
  std::int64_t bytes_{0};   ///< that LibTorch reads into storages
  std::int64_t shared_{0};  ///< bytes by which the tensors of a pickle are larger than its storages
};

struct DiscardZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

/// Reads the directory and every record's own header, and compares them.
std::unique_ptr<zip_t, DiscardZip> open_consistent(const std::string& path, ErrorCode code) {
  int error = 0;
  std::unique_ptr<zip_t, DiscardZip> archive(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive) return archive;
  zip_error_t reason;
  zip_error_init_with_code(&reason, error);
  const std::string text = zip_error_strerror(&reason);
  zip_error_fini(&reason);
  throw Error(code, fmt::format("'{}' is an archive that is cut short or damaged ({})", path, text), kRemedy);
}

void check_unpacked(zip_t& archive, const std::string& path, ErrorCode code) {
  std::uint64_t unpacked = 0;
  const auto count = static_cast<std::uint64_t>(std::max<zip_int64_t>(zip_get_num_entries(&archive, 0), 0));
  for (std::uint64_t i = 0; i < count; ++i) {
    zip_stat_t facts;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(&archive, i, 0, &facts) != 0 || (facts.valid & kNeeded) != kNeeded) continue;
    if (facts.comp_method == ZIP_CM_STORE && facts.size != facts.comp_size)
      throw Error(code, fmt::format("'{}' is damaged: a record has two sizes", path), kRemedy);
    if (facts.comp_method != ZIP_CM_STORE) unpacked += std::min(facts.size, kMostUnpacked + 1);
    if (unpacked > kMostUnpacked)
      throw Error(
          code,
          fmt::format("'{}' becomes more than {} when it is unpacked", path, readable_size(kMostUnpacked)),
          "pack it without compression, as torch.save does");
  }
}

}  // namespace

bool is_zip(const std::string& path) {
  std::string start(2, '\0');
  return std::ifstream(path, std::ios::binary).read(start.data(), 2) && start == "PK";
}

void check_archive(const std::string& path, ErrorCode code) {
  if (!is_zip(path)) return;
  check_unpacked(*open_consistent(path, code), path, code);
  try {
    TorchArchive(path, code).check();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    // LibTorch's own reader of archives refuses it, and says so when it reads it.
  }
}

}  // namespace tsq::io
