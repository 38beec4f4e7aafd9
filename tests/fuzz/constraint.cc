// Any bytes as a pattern, and as a JSON schema: an error that names the key, or a walk that ends.
#include "text/constraint/lazy_dfa.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/schema.h"

#include "base/error.h"
#include "base/json/json.h"
#include "in_memory_file.h"

namespace {

using namespace trl;

// Follows some text that matches so far.
template <class Tree>
void walk(const Tree& tree) {
  try {
    text::LazyDfa dfa(text::Automaton(tree(), "key"));
    uint32_t state = dfa.start(false)->number;
    for (int step = 0; step < 20 && dfa.work() < 1'000'000; ++step) {
      uint32_t next = text::LazyDfa::kDead;
      for (int byte = 255; byte >= 0 && next == text::LazyDfa::kDead; --byte)
        next = dfa.next(state, static_cast<uint8_t>(byte));
      fuzz::require(next != text::LazyDfa::kDead || dfa.at(state)->matches);
      if (next == text::LazyDfa::kDead) return;
      state = next;
    }
  } catch (const Error& error) {
    fuzz::require(error.key() == "key" && error.message().starts_with("key: "));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  walk([&] { return text::parse_pattern(bytes, "key"); });
  walk([&] { return text::parse_part_pattern(bytes, "key"); });
  try {
    const base::Json schema = base::parse_json(bytes, "schema");
    walk([&] { return text::parse_schema(schema, "key"); });
  } catch (const Error&) {  // not JSON
  }
  return 0;
}
