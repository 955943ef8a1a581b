#include "cli/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <string_view>

#include "base/text.h"

namespace tsq::cli {
namespace {

/// `number`: that of the error; 0 where it is not known.
Error not_written(int number) {
  const std::string reason = number == 0       ? "a part of it is lost"
                             : number == EBADF ? "it is closed"
                                               : std::strerror(number);
  return Error(ErrorCode::BadOutput, fmt::format("standard output cannot be written: {}", reason),
               number == EBADF ? "send it to a file" : "send it to a file where there is room for it");
}

/// A text of more than `longest` bytes as `kept` of them, the last ones among them.
std::string without_middle(std::string_view text, std::size_t longest, std::size_t kept) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = text.size() - kept / 5;
  while (end < text.size() && continues_letter(text[end])) ++end;
  return fmt::format("{} … {}", beginning_of(text, kept - kept / 5), text.substr(end));
}

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f; }

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free, which is this one. What goes to a closed standard error is dropped.
    if (open("/dev/null", stream == STDERR_FILENO ? O_RDWR : O_RDONLY) != stream) return;
  }
}

std::string as_line(std::string text) {
  constexpr std::size_t kLongest = 1000;
  constexpr std::size_t kLongestWord = 255;  // of a file's name
  std::ranges::replace_if(text, is_control, ' ');
  std::string line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" /", begin), text.size() - 1) + 1;
    line += without_middle(std::string_view(text).substr(begin, end - begin), kLongestWord, 100);
    begin = end;
  }
  return without_middle(line, kLongest, kLongest);
}

void print_note(const std::string& note) { std::cerr << fmt::format("tsq: note: {}\n", as_line(note)); }

void write_standard_output(std::string text) {
  std::ranges::replace_if(
      text, [](char byte) { return is_control(byte) && byte != '\n'; }, ' ');
  errno = 0;
  std::cout << text << std::flush;
  const int number = errno;
  if (std::cout || number == EPIPE) return;
  throw not_written(number);
}

}  // namespace tsq::cli
