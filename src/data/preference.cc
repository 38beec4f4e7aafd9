// See preference.h.
#include "data/preference.h"

#include <array>
#include <string>

#include "base/error.h"
#include "data/map_rows.h"
#include "data/preference_rows.h"

namespace trl::data {

namespace {

// What is told once, at the end.
class Tally {
 public:
  // False: the example is dropped. Of one that is, nothing else counts.
  bool add(const Events& events, const std::string& where) {
    ++examples_;
    const bool dropped = (events >> kLongPrompt).any();
    for (size_t event = dropped ? size_t{kLongPrompt} : 0; event < kEvents; ++event) {
      if (events[event] && counts_[event].count++ == 0) counts_[event].first = where;
    }
    return !dropped;
  }

  void warn(const Table& table, const config::PreferenceDataArguments& arguments, base::LogSink& log) const {
    const auto value = [](const std::optional<int64_t>& option) { return option.value_or(0); };
    std::string told;
    const auto tell = [&](Event event, const std::string& what) {
      const Count& count = counts_[event];
      if (count.count == 0) return;
      told +=
          fmt::format("{}{} {} (the first: {})", told.empty() ? "" : "; ", count.count, what, count.first);
    };
    const int64_t length = value(arguments.max_length);
    tell(kLongPrompt, fmt::format("dropped, since the prompt alone reaches max_length {}", length));
    tell(kTooLong, fmt::format("dropped, since a side is longer than max_length {}", length));
    tell(kEmpty, "dropped, since no token is left");
    tell(kPromptCut, fmt::format("prompts cut to max_prompt_length {}", value(arguments.max_prompt_length)));
    tell(kCompletionCut,
         fmt::format("completions cut to max_completion_length {}", value(arguments.max_completion_length)));
    tell(kCut, fmt::format("cut to max_length {}", length));
    if (!told.empty()) log.warning("data", "{}: of {} rows {}", table.name(), examples_, told);
    if (counts_[kParted].count == 0) return;
    log.warning(
        "data",
        "{}: in {} of {} rows the tokens of the prompt do not begin those of prompt and completion; the "
        "completion starts where they part (the first: {})",
        table.name(), counts_[kParted].count, examples_, counts_[kParted].first);
  }
  int64_t examples() const { return examples_; }

 private:
  struct Count {
    int64_t count = 0;
    std::string first;
  };
  std::array<Count, kEvents> counts_;
  int64_t examples_ = 0;
};

Row first_row(const Table& table) {
  if (table.size() == 0) fail(Status::format, "{}: holds no rows", table.name());
  const int64_t row = 0;
  std::vector<RowText> texts;
  table.fetch({&row, 1}, texts);
  return parse_row(texts.at(0));
}

// Of a block, the first example of every row, then the second of every row that has two.
template <class T, class Rows>
std::unique_ptr<ExampleList<T>> prepare(const Table& table, const PreferenceContext& context,
                                        const Rows& rows) {
  auto list = std::make_unique<ExampleList<T>>(context.store);
  Tally tally;
  const auto make = [&](Row& row, std::vector<Made<T>>& out) { rows.examples(row, out); };
  map_rows<Made<T>>(table, *context.pool, context.cancel, make, [&](int64_t first, auto& block) {
    for (size_t turn = 0, left = 1; left > 0; ++turn) {
      left = 0;
      for (size_t i = 0; i < block.size(); ++i) {
        if (block[i].made.size() <= turn) continue;
        ++left;
        Made<T>& made = block[i].made[turn];
        made.example.source_row = first + static_cast<int64_t>(i);
        if (tally.add(made.events, block[i].where)) list->append(made.example);
      }
    }
  });
  tally.warn(table, *context.arguments, *context.log);
  if (list->size() == 0) {
    fail(Status::format, "{}: nothing is left to train on: all of the {} rows are dropped", table.name(),
         tally.examples());
  }
  context.log->info("data", "{}: {} rows", table.name(), list->size());
  return list;
}

RowReader reader_of(const PreferenceContext& context) { return {*context.tokenizer, *context.arguments}; }

}  // namespace

std::unique_ptr<PreferenceList> prepare_dpo(const Table& table, const PreferenceContext& context) {
  return prepare<PreferenceExample>(table, context, DpoRows(reader_of(context), first_row(table)));
}

std::unique_ptr<PreferenceList> prepare_reward(const Table& table, const PreferenceContext& context) {
  const int64_t vocab_size = context.vocab_size > 0 ? context.vocab_size : context.tokenizer->vocab_size();
  const RewardRows rows(reader_of(context), first_row(table), vocab_size);
  if (rows.renamed()) {
    context.log->warning("data",
                         "{}: columns chosen_input_ids and rejected_input_ids are read as chosen_ids and "
                         "rejected_ids, as they are called now",
                         table.name());
  }
  return prepare<PreferenceExample>(table, context, rows);
}

std::unique_ptr<UnpairedList> prepare_kto(const Table& table, const PreferenceContext& context) {
  return prepare<UnpairedExample>(table, context, KtoRows(reader_of(context), first_row(table)));
}

std::unique_ptr<PromptList> prepare_prompts(const Table& table, const PreferenceContext& context) {
  return prepare<PromptExample>(table, context, PromptRows(reader_of(context), first_row(table)));
}

}  // namespace trl::data
