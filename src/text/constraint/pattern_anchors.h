// The anchors of a pattern, which an automaton does not have: those that hold anyway are taken out.
#pragma once
#include <string_view>

#include "text/constraint/pattern_tree.h"

namespace trl::text {

// Removes the anchors of a tree that matches whole texts. Throws Error(invalid_config) of the key for one
// that is not at the beginning or end.
void remove_anchors(PatternTree& tree, std::string_view key);

// Returns the tree with any text before and behind it, except at a side where it has an anchor.
PatternTree with_surroundings(PatternTree tree);

}  // namespace trl::text
