// Rows of instruction, input and output, as Alpaca's are.
#pragma once
#include <string>

#include "data/source/row.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// Whether a row is one of them: it has an instruction and an output, and nothing else that is trained on.
bool is_alpaca(const Row& row, const std::string& text_field);
// Such a row as prompt (the instruction, then a line end and the input unless it is empty) and completion:
// messages if the tokenizer has a chat template, or else text. Leaves others as they are. Throws
// Error(format): a column that is not text.
void convert_alpaca(Row& row, const std::string& text_field, const text::Tokenizer& tokenizer);

}  // namespace trl::data
