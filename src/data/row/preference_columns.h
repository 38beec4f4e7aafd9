// The columns of preference, unpaired and prompt-only rows, and TRL's conversions between them
// (trl/data_utils.py). If TRL's are arbitrary or fail, these throw Error(format) naming row and column.
#pragma once
#include <optional>
#include <string_view>

#include "data/row/columns.h"

namespace trl::data {

enum class Content : uint8_t { text, messages };

// Returns the kind of a column of the dataset's first row; text_column or messages_column reads it in other
// rows.
Content content_of(const Row& row, std::string_view name);

// Applies maybe_convert_to_chatml to every column that may hold messages.
void convert_to_chatml(Row& row);

// Splits `chosen` and `rejected`, which both begin with the prompt. Text: before the first code point that
// differs, or before the space in front of it. Messages: before the first message that differs. If one begins
// with all of the other, the other is the prompt, and its remainder may be empty.
void extract_prompt(Row& row);

// maybe_extract_prompt, for a prompt of text next to messages: it is dropped if it is among the messages that
// chosen and rejected begin with, and contradicts them otherwise.
void drop_text_prompt(Row& row);

// Makes an unpaired row of a preference row: its other columns, and prompt, completion, label.
Row unpaired(const Row& row, bool chosen);

bool label_column(const Row& row, std::string_view name);  // true, false, 1 or 0; in CSV also as text
std::optional<float> number_column(const Row& row, std::string_view name);  // nullopt: it is absent

}  // namespace trl::data
