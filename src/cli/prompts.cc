#include "cli/prompts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "cli/handles.h"

namespace trl::cli {

namespace {

std::string all_of(std::istream& in) {
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::string standard_input() {
  std::string text = all_of(std::cin);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string prompt_of(const std::string& line, const std::string& where) {
  if (!line.starts_with('{')) return line;
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (row.is_discarded()) throw Failure(kFailed, where + ": not valid JSON");
  if (!row.contains("prompt") || !row["prompt"].is_string())
    throw Failure(kFailed, where + ": there is no \"prompt\" with a text");
  return row["prompt"].get<std::string>();
}

// A text a line, or JSON Lines with "prompt".
std::vector<std::string> lines_of(const std::string& text, const std::string& name) {
  std::vector<std::string> prompts;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back(prompt_of(line, fmt::format("{}:{}", name, number)));
  }
  if (prompts.empty()) throw Failure(kFailed, name + ": holds no prompts");
  return prompts;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || in.peek() == std::ifstream::traits_type::eof()) {
    const int reason = errno != 0 ? errno : EIO;
    if (!in.is_open())
      throw Failure(kFailed,
                    fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(reason)));
    if (in.bad())
      throw Failure(kFailed,
                    fmt::format("{}: cannot be read: {}", path, std::generic_category().message(reason)));
  }
  return all_of(in);
}

}  // namespace

std::vector<std::string> read_prompts(const std::vector<std::string>& given,
                                      const std::optional<std::string>& file) {
  if (!given.empty() && file) throw Failure(kUsage, "give either --prompt or --prompts, not both");
  if (file)
    return lines_of(*file == "-" ? all_of(std::cin) : file_text(*file), *file == "-" ? "stdin" : *file);
  std::vector<std::string> prompts = given;
  for (std::string& prompt : prompts) {
    if (prompt == "-") prompt = standard_input();
  }
  if (prompts.empty() && isatty(STDIN_FILENO) == 0) {
    prompts.push_back(standard_input());
    if (prompts.front().empty()) prompts.clear();
  }
  if (prompts.empty())
    throw Failure(kUsage,
                  "--prompt is needed: the text to complete; or give --prompts FILE, or the text on stdin");
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty())
      throw Failure(kUsage, fmt::format("--prompt: prompt {} of {} is empty", i + 1, prompts.size()));
  }
  return prompts;
}

}  // namespace trl::cli
