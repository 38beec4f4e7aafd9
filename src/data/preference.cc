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
    const bool dropped = (events >> Event::long_prompt).any();
    for (size_t event = dropped ? size_t{Event::long_prompt} : 0; event < Event::count; ++event) {
      if (events[event] && counts_[event].count++ == 0) counts_[event].first = where;
    }
    return !dropped;
  }

  void warn(const Table& table, const config::PreferenceDataArguments& arguments, base::LogSink& log) const {
    const auto value = [](const std::optional<int64_t>& option) { return option.value_or(0); };
    std::string told;
    const auto tell = [&](Event::Kind event, const std::string& what) {
      const Count& count = counts_[event];
      if (count.count == 0) return;
      told +=
          fmt::format("{}{} {} (the first: {})", told.empty() ? "" : "; ", count.count, what, count.first);
    };
    const int64_t length = value(arguments.max_length);
    tell(Event::long_prompt, fmt::format("dropped, since the prompt alone reaches max_length {}", length));
    tell(Event::too_long, fmt::format("dropped, since a side is longer than max_length {}", length));
    tell(Event::empty, "dropped, since no token is left");
    tell(Event::prompt_cut,
         fmt::format("with the prompt cut to max_prompt_length {}", value(arguments.max_prompt_length)));
    tell(Event::completion_cut, fmt::format("with a completion cut to max_completion_length {}",
                                            value(arguments.max_completion_length)));
    tell(Event::cut, fmt::format("cut to max_length {}", length));
    if (!told.empty()) log.warning("data", "{}: of {} rows {}", table.name(), examples_, told);
    if (counts_[Event::parted].count == 0) return;
    log.warning(
        "data",
        "{}: in {} of {} rows the tokens of the prompt do not begin those of prompt and completion; the "
        "completion starts where they part (the first: {})",
        table.name(), counts_[Event::parted].count, examples_, counts_[Event::parted].first);
  }
  int64_t examples() const { return examples_; }

 private:
  struct Count {
    int64_t count = 0;
    std::string first;
  };
  std::array<Count, Event::count> counts_;
  int64_t examples_ = 0;
};

constexpr int64_t kUnpairedBlockRows = 1000;  // of TRL's batched map

// Of a block of rows, the first example of every row, then the second of every row that has two.
template <class T, class Rows>
std::unique_ptr<ExampleList<T>> prepare(const Table& table, const PreferenceContext& context,
                                        const Rows& rows) {
  auto list = std::make_unique<ExampleList<T>>(context.store);
  Tally tally;
  std::vector<T> second;
  const auto end_block = [&] {
    for (const T& example : second) list->append(example);
    second.clear();
  };
  const auto make = [&](Row& row, std::vector<Made<T>>& out) { rows.examples(row, out); };
  map_rows<Made<T>>(table, *context.pool, make, [&](int64_t row, Mapped<Made<T>>& mapped) {
    if (row % kUnpairedBlockRows == 0) end_block();
    for (size_t i = 0; i < mapped.made.size(); ++i) {
      Made<T>& made = mapped.made[i];
      made.example.source_row = row;
      if (!tally.add(made.events, mapped.where)) continue;
      if (i == 0) {
        list->append(made.example);
      } else {
        second.push_back(std::move(made.example));
      }
    }
  });
  end_block();
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
