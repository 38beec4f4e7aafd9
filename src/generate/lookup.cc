#include "generate/lookup.h"

#include <algorithm>
#include <new>

namespace trl::generate {

namespace {
// Places that are compared; a text that repeats itself has many.
constexpr int64_t kPlaces = 32;
}  // namespace

Lookup::Lookup(std::span<const int32_t> prompt, int64_t completions, const engine::Speculation& options)
    : options_(options), texts_(1) {
  texts_[0].ids.reserve(prompt.size());
  texts_[0].earlier.reserve(prompt.size());
  for (const int32_t id : prompt) append(-1, id);
  prompt_ = std::ssize(prompt);
  texts_.resize(static_cast<size_t>(completions) + 1);
}

int64_t Lookup::length(int32_t text) const {
  return (text > 0 ? prompt_ : 0) + std::ssize(texts_[static_cast<size_t>(text)].ids);
}

int32_t Lookup::id(int32_t text, int64_t place) const {
  if (text == 0 || place < prompt_) return texts_[0].ids[static_cast<size_t>(place)];
  return texts_[static_cast<size_t>(text)].ids[static_cast<size_t>(place - prompt_)];
}

// FNV-1a over the least number of ids that must be alike (Fowler, Noll & Vo).
uint64_t Lookup::hash(int32_t text, int64_t end) const {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t i = end - options_.least_ngram; i < end; ++i)
    hash = (hash ^ static_cast<uint32_t>(id(text, i))) * 0x100000001b3u;
  return hash;
}

void Lookup::append(int64_t completion, int32_t id) {
  const auto text = static_cast<int32_t>(completion + 1);
  texts_[static_cast<size_t>(text)].ids.push_back(id);
  try {
    note(text);
  } catch (const std::bad_alloc&) {  // its place stays unknown
  }
}

void Lookup::make_room(int64_t completion, int64_t ids) {
  std::vector<int32_t>& own = texts_[static_cast<size_t>(completion + 1)].ids;
  own.reserve(own.size() + static_cast<size_t>(ids));
}

// Makes the end of a text findable.
void Lookup::note(int32_t text) {
  Text& own = texts_[static_cast<size_t>(text)];
  const int64_t end = length(text);
  own.earlier.resize(own.ids.size());
  if (end < options_.least_ngram) return;
  Place& last = last_[hash(text, end)];
  own.earlier.back() = last;
  last = {text, static_cast<int32_t>(end)};
}

// Returns how many ids are the same before both places, at most most_ngram.
int64_t Lookup::alike(Place a, Place b) const {
  const int64_t most = std::min<int64_t>({options_.most_ngram, a.end, b.end});
  int64_t same = 0;
  while (same < most && id(a.text, a.end - 1 - same) == id(b.text, b.end - 1 - same)) ++same;
  return same;
}

std::vector<int32_t> Lookup::after(int64_t completion, int64_t most) const {
  const auto text = static_cast<int32_t>(completion + 1);
  const Place here{completion < 0 || texts_[static_cast<size_t>(text)].ids.empty() ? 0 : text,
                   static_cast<int32_t>(length(text))};
  std::vector<int32_t> ids;
  if (here.end < options_.least_ngram || most < 1) return ids;
  Place best;
  int64_t longest = options_.least_ngram - 1;
  const auto found = last_.find(hash(here.text, here.end));
  if (found == last_.end()) return ids;
  Place place = found->second;
  for (int64_t i = 0; i < kPlaces && place.text >= 0 && longest < options_.most_ngram; ++i) {
    // At the end of another completion nothing follows; the prompt goes on with this one.
    const bool is_own = place.text == here.text || place.text == 0;
    const bool follows = place.end < (is_own ? here.end : length(place.text));
    if (const int64_t same = follows ? alike(place, here) : 0; same > longest) {
      best = place;
      longest = same;
    }
    const Text& of = texts_[static_cast<size_t>(place.text)];
    const auto own = static_cast<size_t>(place.end - 1 - (place.text > 0 ? prompt_ : 0));
    place = own < of.earlier.size() ? of.earlier[own] : Place{};
  }
  if (best.text < 0) return ids;
  // A proposal from the text itself may reach its end, and then continues with the ids proposed before.
  const bool goes_round = best.text == here.text || best.text == 0;
  const int64_t end = length(best.text);
  for (int64_t i = best.end; std::ssize(ids) < most; ++i) {
    if (i < end)
      ids.push_back(id(best.text, i));
    else if (goes_round && i < here.end)
      ids.push_back(id(here.text, i));
    else if (goes_round)
      ids.push_back(ids[static_cast<size_t>(i - here.end)]);
    else
      break;
  }
  return ids;
}

}  // namespace trl::generate
