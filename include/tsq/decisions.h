#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tsq {

/// What a model decides by its scores. Along one dimension of an output, whatever its rank, classes are
/// numbered: each row of scores along it is one decision, for the class with the largest. Each number of a
/// sigmoid is a decision by itself: yes from one half on. So is each of a model that returns labels alone.

/// Why the numbers of an output count as scores.
enum class ScoresBy {
  Nothing,  ///< they do not: the output is not judged as decisions
  Softmax,  ///< they are what a softmax returns, moved or not, or grow with it
  LogSoftmax,
  Sigmoid,        ///< each number is a yes or no; most are below 0.1 or above 0.9, and both answers occur
  Compared,       ///< an argmax, a topk or a softmax of the model reads them
  Probabilities,  ///< all rows are positive and add up to one
  Rows,           ///< they are rows of a layer's outputs, and have nothing of coordinates
  Named,          ///< the user says so
  Labels,         ///< they are no scores but what was decided: places of the largest numbers, or a comparison
};
/// "nothing", "softmax", "log_softmax", "sigmoid", "compared", "probabilities", "rows", "named", "labels".
std::string_view to_string(ScoresBy by);

/// An output whose numbers the user calls scores.
struct NamedDecisions {
  std::string
      output{};  ///< "output", "output[1]", "output['logits']"; of a dictionary the key alone, "logits"
  std::optional<int64_t> dim{};  ///< along which classes are numbered; none: as the graph says, else the last

  /// "output[1]" or "output[1]:2". Throws Error(BadConfig).
  static NamedDecisions parse(std::string_view text);
};

/// How many decisions there are, and how many of them are the same.
struct Decisions {
  uint64_t rows{0};
  uint64_t agreed{0};  ///< the same class, and that one alone unless several are largest where it is wanted
  uint64_t tied{0};    ///< several classes are the largest where one is wanted

  void add(const Decisions& more);
  /// Decisions that are other ones, ties among them.
  [[nodiscard]] uint64_t lost() const noexcept { return rows - agreed; }
  [[nodiscard]] double share() const noexcept;  ///< of those that agree; 1 where there are none
};

/// The decisions of an output.
struct JudgedDecisions {
  ScoresBy by{ScoresBy::Nothing};
  std::optional<int64_t>
      dim{};  ///< along which classes are numbered; none: of a sigmoid, of labels, and where not judged
  Decisions all{};
  /// Those in which the wanted class has nine tenths of the probability or more (of a sigmoid: the answer):
  /// they are no near ties. Labels do not tell: none is. Scores are taken as probabilities where none is
  /// negative and each row adds up to one, else as logits, whose softmax is.
  Decisions clear{};
  /// Rows that are not counted: those that are the same in more than half of the sequences (the samples, or
  /// the entries along the first dimension of outputs of rank three), as padding is, and rows of equal
  /// numbers.
  uint64_t left_out{0};
  std::string reason{};  ///< for people: why it is not judged

  [[nodiscard]] bool is_judged() const noexcept { return by != ScoresBy::Nothing; }
  void add(const JudgedDecisions& more);
  /// {"judged_by", "dim", "rows", "agreed", "tied", "further", "left_out", "clear": {"rows", "agreed",
  /// "tied"}}, "further" the 95 % interval of the share that agrees (Wilson); where it is not judged
  /// {"judged_by": null, "reason"}.
  [[nodiscard]] nlohmann::json to_json() const;
  /// "94 of 96 as in float (97.9 %, of further ones 92.7 to 99.4 %), of the clear ones 80 of 80; rows of a
  /// softmax along dimension 1", "not judged as decisions: …".
  [[nodiscard]] std::string to_text() const;
};

}  // namespace tsq
