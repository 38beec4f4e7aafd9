// The columns of preference, unpaired and prompt-only rows, and TRL's conversions between them
// (trl/data_utils.py). Where TRL's are arbitrary or fail, here is Error(format) naming row and column.
#pragma once
#include <optional>
#include <string_view>

#include "data/row/columns.h"

namespace trl::data {

enum class Content : uint8_t { text, messages };

// What a column of the dataset's first row holds; in the others text_column or messages_column reads it.
Content content_of(const Row& row, std::string_view name);

// maybe_convert_to_chatml on every column that may hold messages.
void convert_to_chatml(Row& row);

// Splits `chosen` and `rejected`, which both begin with the prompt. Text: before the first code point that
// differs, or before the space in front of it. Messages: before the first message that differs. If one begins
// with all of the other, that is the prompt, and what is left of the other may be empty.
void extract_prompt(Row& row);

// maybe_extract_prompt, as far as a prompt of text beside messages goes: it is dropped when it stands among
// the messages that chosen and rejected begin with, and contradicts them otherwise.
void drop_text_prompt(Row& row);

// A preference row as an unpaired one: its other columns, and prompt, completion, label.
Row unpaired(const Row& row, bool chosen);

bool label_column(const Row& row, std::string_view name);  // true, false, 1 or 0; of CSV also as text
std::optional<float> number_column(const Row& row, std::string_view name);  // nullopt: there is none

}  // namespace trl::data
