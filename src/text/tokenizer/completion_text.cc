#include "text/tokenizer/completion_text.h"

#include <algorithm>

namespace trl::text {

namespace {

// Returns the length of the longest beginning of a stop text with which a text ends.
size_t begun(std::string_view text, std::string_view stop) {
  size_t length = std::min(stop.size() - 1, text.size());
  while (!text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

CompletionText::CompletionText(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : vocab_size_(tokenizer.vocab_size()),
      stream_(tokenizer, true),
      whole_stream_(tokenizer, false),
      stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_stop_ = std::max(longest_stop_, stop.size());
}

bool CompletionText::add(int32_t id) {
  ids_.push_back(id);
  if (over_ || id >= vocab_size_) return false;  // rows that pad the embedding have no text
  return append(stream_.step(id), stops_.empty() ? std::string() : whole_stream_.step(id));
}

bool CompletionText::finish() {
  const bool stopped = !over_ && append(stream_.finish(), whole_stream_.finish());
  over_ = true;
  return stopped;
}

bool CompletionText::append(const std::string& piece, const std::string& whole) {
  const size_t before = text_.size();
  text_ += piece;
  if (stops_.empty()) return false;
  append_whole(before, whole);
  size_t cut = std::string::npos, whole_cut = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    const size_t place = text_.find(stop, before >= stop.size() ? before - stop.size() + 1 : 0);
    const size_t whole_place = whole_.find(stop);
    whole_cut = std::min(whole_cut, whole_place);
    const size_t first = whole_place == std::string::npos ? place : std::min(place, places_[whole_place]);
    if (first >= cut) continue;
    cut = first;
    stop_ = i;
  }
  if (cut == std::string::npos) {
    forget_whole();
    return false;
  }
  cut_ = cut < text_.size();
  text_.resize(cut);
  if (const std::string rest = stream_.finish(); !cut_ && !whole_.substr(whole_cut).starts_with(rest))
    text_ += rest;  // an unfinished character before a special token
  return over_ = true;
}

// Bytes that a special token adds stand before those that the text has, too.
void CompletionText::append_whole(size_t before, const std::string& whole) {
  const size_t added = text_.size() - before;
  whole_ += whole;
  for (size_t left = whole.size(); left > 0; --left) places_.push_back(text_.size() - std::min(left, added));
}

// Drops all of whole_ but an end that may begin a stop text.
void CompletionText::forget_whole() {
  const size_t kept = std::min(whole_.size(), longest_stop_ - 1);
  places_.erase(places_.begin(), places_.end() - static_cast<std::ptrdiff_t>(kept));
  whole_.erase(0, whole_.size() - kept);
}

// A beginning of a stop text at the end may become one.
size_t CompletionText::certain_size() const {
  size_t end = text_.size();
  if (over_) return end;
  for (const std::string& stop : stops_) {
    end = std::min(end, text_.size() - begun(text_, stop));
    if (const size_t held = begun(whole_, stop); held > 0) end = std::min(end, places_[whole_.size() - held]);
  }
  return end;
}

std::string_view CompletionText::certain() const { return std::string_view(text_).substr(0, certain_size()); }

std::string_view CompletionText::take() {
  const std::string_view piece = certain().substr(taken_);
  taken_ += piece.size();
  return piece;
}

}  // namespace trl::text
