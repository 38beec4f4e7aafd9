// Finds the format of a row among SFT's dataset formats, and reads its columns with checks. An absent column
// and null are the same (TRL sees rows through Arrow, in which they cannot be told apart).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "data/prepare/example.h"
#include "data/source/source.h"

namespace trl::data {

enum class Format {
  text,                        // the text field
  messages,                    // messages, or conversations of from/value
  prompt_completion,           // two strings, or instruction, input and output
  prompt_completion_messages,  // two lists of messages
  tokenized,                   // input_ids
};
std::string_view format_name(Format format);

const base::Json* find_column(const Row& row, std::string_view name);  // null: absent or null

// All of these throw Error(format) naming row, column, expected and actual value, and the row's columns.
void select_columns(Row& row, const std::vector<std::string>& names);  // drops all others; empty: keeps all
void rename_columns(Row& row, const std::vector<std::pair<std::string, std::string>>& from_to);
bool is_messages(const base::Json& value);  // a list that begins with an object with a role
void refuse_images(const Row& row);         // `image`, `images`
Format format_of(const Row& row, const std::string& text_field);
const std::string& text_column(const Row& row, std::string_view name);
const base::Json& messages_column(const Row& row, std::string_view name);  // a list of objects with a role
std::vector<int32_t> ids_column(const Row& row, std::string_view name, int64_t vocab_size);
// ids and kIgnored; 0 and 1. Both must have `count` elements.
std::vector<int32_t> labels_column(const Row& row, std::string_view name, int64_t vocab_size, size_t count);
std::vector<uint8_t> mask_column(const Row& row, std::string_view name, size_t count);
std::vector<int32_t> lengths_column(const Row& row, std::string_view name,
                                    size_t count);  // their sum is count
[[noreturn]] void fail_column(const Row& row, std::string_view name, std::string_view expected);

}  // namespace trl::data
