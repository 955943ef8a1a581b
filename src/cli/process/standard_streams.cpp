#include "cli/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

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
  constexpr std::size_t kEnd = 200;
  std::ranges::replace_if(text, is_control, ' ');
  if (text.size() <= kLongest) return text;
  const auto is_inside_letter = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80;
  };
  std::size_t begin = kLongest - kEnd;
  std::size_t end = text.size() - kEnd;
  while (is_inside_letter(begin)) --begin;
  while (end < text.size() && is_inside_letter(end)) ++end;
  return text.substr(0, begin) + " … " + text.substr(end);
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
