#include "text/constraint/schema.h"

#include <algorithm>

#include "base/error.h"
#include "text/constraint/schema_parser.h"

namespace trl::text {

namespace {

constexpr int kMostRecursion = 5;              // of a schema in itself
constexpr size_t kMostRecursiveParts = 20000;  // in all, or the recursion is less deep

// With every repetition, up to about the most that is asked for.
size_t written_size(const PatternTree& tree, size_t most) {
  size_t all = 1;
  for (const PatternTree& part : tree.parts)
    if (all < most) all += written_size(part, most);
  if (tree.kind != PatternTree::Kind::repeat) return all;
  const uint32_t copies = tree.most == PatternTree::kUnlimited ? tree.least + 1 : tree.most;
  return all < most ? all * std::max(copies, 1u) : all;
}

}  // namespace

// A schema in itself is followed as deep as the whole stays small.
PatternTree parse_schema(const base::Json& schema, std::string_view key) {
  for (int recursion = kMostRecursion;; --recursion) {
    SchemaParser parser(schema, key, recursion);
    try {
      PatternTree tree = parser.parse(schema, "#");
      if (recursion == 1 || !parser.is_recursive() ||
          written_size(tree, kMostRecursiveParts) < kMostRecursiveParts)
        return tree;
    } catch (const Error&) {
      if (recursion == 1 || !parser.is_too_large()) throw;
    }
  }
}

}  // namespace trl::text
