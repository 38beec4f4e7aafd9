#include "cli/completions_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text/message_text.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kNumber = 12, kLeastText = 12;  // columns
constexpr std::string_view kBetween = " | ", kCrossing = "-+-";

struct Column {
  std::string title;
  bool number = false;
  int width = 0;
  std::vector<std::string> cells = {};
};

// Makes text safe to print: its own line ends stay, and other control characters become spaces.
std::string printable(std::string text) {
  for (char& c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < ' ' || c == '\x7f')) c = ' ';
  return text;
}

std::string plain(const Json& value) { return printable(base::text_or_json(value)); }

// Returns a text, or messages: each below its role, with its parts on lines of their own.
std::string text_of(const Json& value) {
  if (!value.is_array() || !std::ranges::all_of(value, [](const Json& one) { return one.is_object(); }))
    return plain(value);
  std::string out;
  for (const Json& message : value) {
    base::MessageText own = base::message_text(message);
    std::ranges::transform(own.role, own.role.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    out += fmt::format("{}{}\n{}", out.empty() ? "" : "\n\n", own.role, fmt::join(own.parts, "\n"));
  }
  return printable(std::move(out));
}

std::string number_of(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "-";
}

std::vector<Column> columns_of(const Json& all) {
  std::vector<Column> columns;
  const auto add = [&](const std::string& name, std::string title, bool number) {
    Column& column = columns.emplace_back(Column{std::move(title), number});
    for (const Json& row : all["rows"]) {
      const Json value = row.value(name, Json());  // an extra of another generation is not there
      column.cells.push_back(number ? number_of(value) : text_of(value));
    }
  };
  add("prompt", "Prompt", false);
  add("completion", "Completion", false);
  for (const Json& name : all["rewards"]) add(name, name, true);
  if (all["rows"][0].contains("advantage")) add("advantage", "Advantage", true);
  for (const Json& name : all["extras"]) add(name, name, false);
  return columns;
}

// Gives numbers what they need, up to a limit, and shares the rest among texts.
void share(std::vector<Column>& columns, int width) {
  int left = width - static_cast<int>(kBetween.size() * (columns.size() - 1)), texts = 0;
  for (Column& column : columns) {
    if (!column.number) {
      ++texts;
      continue;
    }
    column.width = std::min(kNumber, width_of(column.title));
    for (const std::string& cell : column.cells) column.width = std::max(column.width, width_of(cell));
    left -= column.width;
  }
  for (Column& column : columns) {
    if (column.number) continue;
    column.width = std::max(kLeastText, left / texts--);
    left -= column.width;
  }
}

// Breaks lines between words, and within words that are longer than a line.
std::vector<std::string> lines_of(const std::string& text, int width) {
  WordWrap wrap;
  std::string broken = wrap.add(text, width);
  broken += wrap.rest();
  std::vector<std::string> lines;
  for (std::string_view left = broken; !left.empty() || lines.empty();) {
    const std::string_view line = fitting(left.substr(0, left.find('\n')), width);
    lines.emplace_back(line);
    left.remove_prefix(line.size());
    if (left.starts_with('\n')) left.remove_prefix(1);
  }
  return lines;
}

// Returns the lines of a row. text: of a column.
template <class Text>
std::string row_of(const std::vector<Column>& columns, const Text& text) {
  std::vector<std::vector<std::string>> cells;
  size_t height = 0;
  for (const Column& column : columns)
    height = std::max(height, cells.emplace_back(lines_of(text(column), column.width)).size());
  std::string out;
  for (size_t line = 0; line < height; ++line) {
    std::string whole;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string part = line < cells[i].size() ? cells[i][line] : "";
      const std::string space(static_cast<size_t>(std::max(0, columns[i].width - width_of(part))), ' ');
      whole += (i > 0 ? std::string(kBetween) : "") + (columns[i].number ? space + part : part + space);
    }
    out += whole.substr(0, whole.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string completions_table(std::string_view json, int width) {
  const Json all = Json::parse(json);
  std::vector<Column> columns = columns_of(all);
  share(columns, width);
  std::string rule;
  for (const Column& column : columns)
    rule +=
        (rule.empty() ? "" : std::string(kCrossing)) + std::string(static_cast<size_t>(column.width), '-');
  std::string out = fmt::format("completions of step {} ({})\n", all["rows"][0]["step"].get<int64_t>(),
                                all["mode"].get<std::string>());
  out += row_of(columns, [](const Column& column) { return column.title; });
  for (size_t row = 0; row < all["rows"].size(); ++row)
    out += rule + "\n" + row_of(columns, [row](const Column& column) { return column.cells[row]; });
  return out + "\n";
}

}  // namespace trl::cli
