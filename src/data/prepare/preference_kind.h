// Rows of preference, unpaired and prompt-only data as a kind for the pass that prepares them.
#pragma once
#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads/thread_pool.h"
#include "data/prepare/preference_rows.h"
#include "data/prepare/prepare_context.h"
#include "data/prepare/row_kind.h"

namespace trl::data {

// Throws Error(format) if all rows are dropped.
void check_preference(const Counts& counts, std::string_view name, const config::DataArguments& arguments);
void report_preference(const Counts& counts, std::string_view name, const PrepareContext& context);

// T: the examples that rows become. Rows: makes them (preference_rows.h).
template <class T, class Rows>
class PreferenceKind final : public RowKind {
 public:
  // first: decides what holds for all rows.
  PreferenceKind(const PrepareContext& context, const Row& first)
      : arguments_(*context.arguments), context_(context), rows_(reader(), first) {
    context_.arguments = &arguments_;
  }
  const Rows& rows() const { return rows_; }

  std::string identity() const override {
    const std::optional<int64_t>& room = arguments_.prompt_room;
    return room ? fmt::format("{}, room {}", Rows::kName, *room) : std::string(Rows::kName);
  }
  // Without a token at its end a completion may be empty, whatever its text.
  bool row_by_row() const override {
    return rows_.one_each() && context_.tokenizer->special().eos.has_value();
  }
  size_t least_bytes_to_drop() const override { return rows_.least_bytes_to_drop(); }
  std::optional<Counts> drops(const RowText& text) const override {
    Row row = parse_row(text);
    if (rows_.most_tokens(row) < static_cast<size_t>(arguments_.max_length.value_or(INT64_MAX)))
      return std::nullopt;
    const std::vector<Made<T>> made = examples(text, 0);
    if (!is_dropped(made.front().events)) return std::nullopt;
    Counts counts;
    counts.add_row(text);
    counts.add(made.front().events, text);
    return counts;
  }

  // Returns the first example of every row, then the second of every row that has two.
  std::vector<std::string> records(const std::vector<RowText>& texts, std::span<const int64_t> source_rows,
                                   bool keep_all, Counts& counts) const override {
    std::vector<std::vector<Made<T>>> made(texts.size());
    context_.pool->parallel_for(static_cast<int64_t>(texts.size()), 8, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        base::poll();
        made[i] = examples(texts[i], source_rows[i]);
      }
    });
    std::vector<std::string> out, second;
    for (size_t i = 0; i < made.size(); ++i) {
      for (Made<T>& one : made[i]) {
        counts.add_row(texts[i]);
        if (keep_all) keep(one.events, texts[i]);
        counts.add(one.events, texts[i]);
        if (is_dropped(one.events)) continue;
        ++counts.kept;
        if constexpr (std::is_same_v<T, UnpairedExample>) counts.desirable += one.example.label ? 1 : 0;
        (&one == &made[i].front() ? out : second).push_back(to_record(one.example));
      }
    }
    out.insert(out.end(), second.begin(), second.end());
    return out;
  }
  std::string record(const RowText& text, int64_t source_row) const override {
    std::vector<Made<T>> made = examples(text, source_row);
    keep(made.front().events, text);
    return to_record(made.front().example);
  }

  void check(const Counts& counts, std::string_view name) const override {
    check_preference(counts, name, arguments_);
  }
  void report(const Counts& counts, std::string_view name) const override {
    report_preference(counts, name, context_);
  }

 private:
  RowReader reader() const {
    const int64_t ids = context_.vocab_size > 0 ? context_.vocab_size : context_.tokenizer->vocab_size();
    return {*context_.tokenizer, arguments_, ids, context_.tools};
  }
  std::vector<Made<T>> examples(const RowText& text, int64_t source_row) const {
    Row row = parse_row(text);
    std::vector<Made<T>> made;
    rows_.examples(row, made);
    for (Made<T>& one : made) one.example.source_row = source_row;
    return made;
  }
  // Keeps a row whose place is already fixed.
  static void keep(Events& events, const RowText& text) {
    if (!is_dropped(events)) return;
    if (events[Event::empty]) fail(Status::format, "{}: the row does not hold a token", text.where());
    events &= Events((1U << kFirstDropped) - 1);
    events.set(Event::untrained);
  }

  const config::DataArguments arguments_;
  PrepareContext context_;
  const Rows rows_;
};

}  // namespace trl::data
