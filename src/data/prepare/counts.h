// Counts the events of preparation: reported once, at its end, and kept with the prepared rows in the cache.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/log.h"
#include "base/place.h"
#include "data/source/row.h"

namespace trl::data {

// The events of a row during preparation.
struct Event {
  enum Kind : size_t {
    parted,           // the tokens of its prompt do not begin those of prompt and completion
    prompt_cut,       // to max_prompt_length
    completion_cut,   // to max_completion_length
    cut,              // to max_length
    blank,            // a completion has no text
    same,             // both completions of a pair are the same
    beside_pair,      // it has a completion in addition to the pair, which is not read
    beside_ids,       // text next to the token ids of a pair
    label_of_pair,    // a label next to the pair
    logps_of_pair,    // log-probabilities of a reference for the pair
    short_row,        // CSV: fewer cells than the header has names
    left_out,         // the chat template renders nothing of one of its messages
    beyond,           // a prompt that leaves too little of the model's positions for a whole completion
    unrendered,       // its columns tools and chat_template_kwargs do not reach the chat template
    untrained,        // it would have been dropped if this had been known in time
    nothing_trained,  // dropped, as in all that follow: no trained token is left
    long_prompt,      // the prompt itself reaches max_length
    too_long,         // longer than max_length, and rows are not cut
    empty,            // no token is left
    count
  };
};
using Events = std::bitset<Event::count>;
inline constexpr size_t kFirstDropped = Event::nothing_trained;
inline bool is_dropped(const Events& events) { return (events >> kFirstDropped).any(); }

struct Counts {
  struct Met {
    int64_t rows = 0;
    std::string first;  // first such row, for messages
  };
  int64_t read = 0;
  int64_t lost_tokens = 0;  // by cutting
  int64_t kept = 0;         // prepared rows, packed ones too
  int64_t tokens = 0;       // tokens of the kept rows
  bool any_trained = false;
  int64_t desirable = 0;  // desirable ones among the kept rows (KTO)
  std::array<Met, Event::count> met;

  const Met& operator[](Event::Kind event) const { return met[event]; }
  int64_t dropped() const;
  std::string of_read(int64_t rows) const;  // "1 of 3 rows"
  void add_row(const RowText& row);         // a row that was read
  // Counts a row for an event; `first` is called for the event's first row.
  template <class First>
  void add(Event::Kind event, const First& first) {
    if (met[event].rows++ == 0) met[event].first = fmt::format("{}", first());
  }
  void add(const Events& events, const RowText& row);  // only counts the reason why a row is dropped
  void add(const Counts& later);                       // adds the counts of later rows
  base::Json to_json() const;
  static Counts from_json(const base::Json& json);  // throws Error(format)
  void report_short_rows(std::string_view name, base::LogSink& log) const;
  void report_left_out(std::string_view name, base::LogSink& log) const;
};

}  // namespace trl::data
