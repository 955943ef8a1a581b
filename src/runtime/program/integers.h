#pragma once

#include <optional>
#include <span>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// The numbers that one call computes. Each row is evaluated when an operation first asks for it, so that
/// the sizes which it reads are known by then.
class Integers {
 public:
  /// `given` are the call's; `shapes` may grow while this lives.
  Integers(const Program& program, std::span<const std::int64_t> given, const std::vector<Shape>& shapes)
      : program_(program), given_(given), shapes_(shapes), known_(program.integers.size()) {}

  std::int64_t number_of(const Extent& extent);

 private:
  [[noreturn]] static void fail(int row, const std::string& problem);
  std::int64_t size(int row, const Integer& integer) const;
  /// The operands are known.
  std::int64_t computed(int row, const Integer& integer) const;
  std::optional<std::int64_t> known_number(const Extent& extent) const;

  const Program& program_;
  std::span<const std::int64_t> given_;
  const std::vector<Shape>& shapes_;
  std::vector<std::optional<std::int64_t>> known_;
};

}  // namespace tsq::runtime
