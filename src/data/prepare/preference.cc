// See preference.h.
#include "data/prepare/preference.h"

#include "base/text/number.h"
#include "data/prepare/conversation_rows.h"
#include "data/prepare/preference_kind.h"

namespace trl::data {

namespace {

template <class T, class Kind>
std::unique_ptr<ExampleList<T>> prepare(std::shared_ptr<const Table> table, const PrepareContext& context,
                                        const Kind& kind) {
  auto rows = kind(context, first_row(*table), table->name());
  return std::make_unique<ExampleList<T>>(
      std::make_unique<Preparation>(std::move(table), context, std::move(rows)));
}

template <class Rows>
std::unique_ptr<const RowKind> prompt_kind(const PrepareContext& context, const Row& first,
                                           std::string_view) {
  return std::make_unique<const PreferenceKind<PromptExample, Rows>>(context, first);
}

// Describes the events of the rows; empty: no events.
std::string told(const Counts& counts, const config::DataArguments& arguments) {
  const auto value = [](const std::optional<int64_t>& option) { return option.value_or(0); };
  std::string text;
  const auto tell = [&](Event::Kind event, std::string_view one, std::string_view many,
                        const std::string& what) {
    const auto& [rows, first] = counts[event];
    if (rows == 0) return;
    text += fmt::format("{}{} {} {} (the first: {})", text.empty() ? "" : "; ", counts.of_read(rows),
                        rows == 1 ? one : many, what, first);
  };
  const auto are = [&](Event::Kind event, const std::string& what) { tell(event, "is", "are", what); };
  const auto have = [&](Event::Kind event, const std::string& what) { tell(event, "has", "have", what); };
  const int64_t length = value(arguments.max_length);
  if (const std::optional<int64_t>& room = arguments.prompt_room) {
    const std::string prompt = fmt::format("a prompt of more than {} tokens", *room);
    are(Event::long_prompt,
        fmt::format("dropped by long_prompts: with {} a whole completion goes beyond the model's positions",
                    prompt));
    have(Event::beyond,
         fmt::format("{}, with which a whole completion goes beyond the model's positions", prompt));
  } else {
    are(Event::long_prompt, fmt::format("dropped because the prompt alone reaches max_length {}", length));
  }
  are(Event::too_long, fmt::format("dropped because a side is longer than max_length {}", length));
  are(Event::empty, "dropped because no token is left");
  have(Event::untrained, fmt::format("nothing to train on within max_length {}", length));
  have(Event::prompt_cut,
       fmt::format("a prompt that is cut to max_prompt_length {}", value(arguments.max_prompt_length)));
  have(Event::completion_cut, fmt::format("a completion that is cut to max_completion_length {}",
                                          value(arguments.max_completion_length)));
  are(Event::cut, fmt::format("cut to max_length {}", length));
  have(Event::blank, "an empty completion");
  have(Event::same, "a chosen completion that is the same as the rejected one");
  have(Event::beside_pair, "a column 'completion', which is not read beside 'chosen' and 'rejected'");
  have(Event::beside_ids, "text in 'chosen' or 'rejected', which is not read beside the token ids");
  have(Event::label_of_pair,
       "a column 'label', which is not read: 'chosen' counts as true and 'rejected' as false");
  have(Event::unrendered,
       "a column 'tools' or 'chat_template_kwargs', which the chat template of prompts does not get, as in "
       "TRL");
  have(Event::logps_of_pair,
       "a column 'ref_chosen_logps' or 'ref_rejected_logps', which is not read: the reference is asked");
  return text;
}

// Rounds as Python's round(value, 2).
double hundredths(double value) { return base::parse_double(fmt::format("{:.2f}", value)).value_or(value); }

struct Range {
  double low, high;
  bool holds(double weight) const { return low <= weight && weight <= high; }
};

// Warns if all rows have one label, and, in TRL's words, if the weights do not compensate for more rows of
// one label than of the other (Eq. 8 of Ethayarajh et al. 2024). name: of the dataset.
void tell_balance(const Counts& counts, std::string_view name, const LabelWeights& weights,
                  base::LogSink& log) {
  const int64_t labelled = counts.desirable;
  if (labelled == 0 || labelled == counts.kept) {
    log.warning("data",
                "{}: label is {} in all of {}: KTO needs desirable and undesirable completions; from one "
                "kind alone it only learns to make all completions {} likely",
                name, labelled > 0, base::quantity(counts.kept, "row"), labelled > 0 ? "more" : "less");
    return;
  }
  const auto desirable = static_cast<double>(labelled),
             undesirable = static_cast<double>(counts.kept - labelled);
  if (desirable == undesirable) return;
  const double of_desirable = undesirable * weights.undesirable / desirable;
  const double of_undesirable = desirable * weights.desirable / undesirable;
  const Range first{hundredths(of_desirable), hundredths(of_desirable * 1.33)},
      second{hundredths(of_undesirable / 1.33), hundredths(of_undesirable)};
  if (first.holds(weights.desirable) || second.holds(weights.undesirable)) return;
  log.warning("data",
              "{}: You have different amounts of desirable/positive and undesirable/negative examples but "
              "the weights on the desirable and undesirable losses don't seem to be in an ideal range. Based "
              "on your data, we recommend EITHER desirable_weight in [{}, {}] or undesirable_weight in [{}, "
              "{}] (but NOT BOTH).",
              name, first.low, first.high, second.low, second.high);
}

}  // namespace

void check_preference(const Counts& counts, std::string_view name, const config::DataArguments& arguments) {
  if (counts.kept > 0) return;
  fail(Status::format, "{}: nothing is left to train on: {}", name, told(counts, arguments));
}

void report_preference(const Counts& counts, std::string_view name, const PrepareContext& context) {
  const config::DataArguments& arguments = *context.arguments;
  base::LogSink& log = *context.log;
  const std::string rows = told(counts, arguments);
  if (!rows.empty()) log.warning("data", "{}: {}", name, rows);
  if (const auto& [parted, first] = counts[Event::parted]; parted > 0) {
    log.warning("data",
                "{}: in {} the tokens of the prompt are not the first tokens of prompt and completion "
                "together; the completion starts where they differ (the first: {})",
                name, counts.of_read(parted), first);
  }
  if (context.label_weights) tell_balance(counts, name, *context.label_weights, log);
  counts.report_left_out(name, log);
  counts.report_short_rows(name, log);
  log.info("data", "{}: {}", name, base::quantity(counts.kept, "row"));
}

std::unique_ptr<const RowKind> dpo_kind(const PrepareContext& context, const Row& first, std::string_view) {
  return std::make_unique<const PreferenceKind<PreferenceExample, DpoRows>>(context, first);
}

std::unique_ptr<const RowKind> reward_kind(const PrepareContext& context, const Row& first,
                                           std::string_view name) {
  auto kind = std::make_unique<const PreferenceKind<PreferenceExample, RewardRows>>(context, first);
  if (kind->rows().renamed()) {
    context.log->warning("data",
                         "{}: columns chosen_input_ids and rejected_input_ids are read as chosen_ids and "
                         "rejected_ids, their current names",
                         name);
  }
  return kind;
}

std::unique_ptr<const RowKind> kto_kind(const PrepareContext& context, const Row& first, std::string_view) {
  return std::make_unique<const PreferenceKind<UnpairedExample, KtoRows>>(context, first);
}

std::unique_ptr<PreferenceList> prepare_dpo(std::shared_ptr<const Table> table,
                                            const PrepareContext& context) {
  return prepare<PreferenceExample>(std::move(table), context, dpo_kind);
}

std::unique_ptr<PreferenceList> prepare_reward(std::shared_ptr<const Table> table,
                                               const PrepareContext& context) {
  return prepare<PreferenceExample>(std::move(table), context, reward_kind);
}

std::unique_ptr<UnpairedList> prepare_kto(std::shared_ptr<const Table> table, const PrepareContext& context) {
  return prepare<UnpairedExample>(std::move(table), context, kto_kind);
}

std::unique_ptr<PromptList> prepare_prompts(std::shared_ptr<const Table> table,
                                            const PrepareContext& context) {
  return prepare<PromptExample>(std::move(table), context, prompt_kind<PromptRows>);
}

std::unique_ptr<PromptList> prepare_conversations(std::shared_ptr<const Table> table,
                                                  const PrepareContext& context) {
  return prepare<PromptExample>(std::move(table), context, prompt_kind<ConversationRows>);
}

}  // namespace trl::data
