// JSON texts as patterns, of which the types of a schema are made.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

// Between the parts of lists and objects: the mark, and a space or none.
PatternTree json_mark(char mark);
// A string of characters, each as itself or as a short escape.
PatternTree json_string(uint32_t least, uint32_t most);
// A string whose value the tree matches.
PatternTree json_string_of(PatternTree value);
PatternTree json_integer();
PatternTree json_number();
PatternTree json_boolean();
// The value itself.
PatternTree json_value(const base::Json& value);
// Any value, nested at most so deep.
PatternTree json_any(int depth);
// name: the text of a name with its quotes.
PatternTree json_map(PatternTree name, PatternTree value, uint32_t least, uint32_t most);
PatternTree json_list(PatternTree value, uint32_t least, uint32_t most);
// A name and its value.
PatternTree json_member(PatternTree name, PatternTree value);
// Members in this order; those that are a PatternTree::maybe() may be missing.
PatternTree json_object(std::vector<PatternTree> members);
// A name, with its quotes, that is none of these, and has no escapes.
PatternTree json_name_except(std::vector<std::string> names);
PatternTree json_nothing();  // no text

}  // namespace trl::text
