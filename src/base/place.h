// A place in what was read, as data: a file of rows, of options or of a model, or a text or buffer.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace trl {

// Formats as messages name it: "rows.jsonl:12", "rows.json:40:7 (row 12)", "rows.parquet (row 12)", "row 12",
// "dataset row 11".
struct Place {
  std::string file;       // the path, or the name of what is not a file ("text"); empty: a host's rows
  int64_t line = 0;       // from 1; 0: not known
  int64_t column = 0;     // in bytes, from 1; 0: not known
  int64_t row = -1;       // of the dataset, from 0; -1: none is at fault, or it is not known
  int64_t number = 0;     // of the row in its file, from 1, if messages tell it
  std::string part = {};  // of the row, if messages tell it: "'chosen' as completion"

  bool is_known() const { return !file.empty() || row >= 0 || number > 0; }
  std::string text() const {
    if (line == 0 && number == 0 && row >= 0)
      return fmt::format("{} row {}", file.empty() ? "dataset" : file, row);
    std::string out = file;
    if (line > 0) out += fmt::format(":{}", line);
    if (line > 0 && column > 0) out += fmt::format(":{}", column);
    if (number > 0)
      out = out.empty() ? fmt::format("row {}", number) : fmt::format("{} (row {})", out, number);
    return part.empty() ? out : fmt::format("{} ({})", out, part);
  }
  static Place in(std::string_view name) { return {std::string(name)}; }
  static Place of_row(int64_t dataset_row) { return {{}, 0, 0, dataset_row}; }
  // Returns the same with another column, such as that of an error within the line.
  Place in_line(int64_t at_line, int64_t at_column) const {
    Place other = *this;
    other.line = at_line;
    other.column = at_column;
    return other;
  }
};

// Returns the first place among the arguments of a message; without one, an unknown place.
template <typename... Args>
Place place_among(const Args&... args) {
  Place found;
  [[maybe_unused]] const auto look = [&](const auto& arg) {
    if constexpr (std::is_same_v<decltype(arg), const Place&>) {
      if (!found.is_known()) found = arg;
    }
  };
  (look(args), ...);
  return found;
}

}  // namespace trl

template <>
struct fmt::formatter<trl::Place> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const trl::Place& place, Context& context) const {
    return fmt::formatter<std::string_view>::format(place.text(), context);
  }
};
