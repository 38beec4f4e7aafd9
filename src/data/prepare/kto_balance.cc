#include "data/prepare/kto_balance.h"

#include "base/text/number.h"
#include "base/text/quantity.h"

namespace trl::data {

namespace {

// Rounds as Python's round(value, 2).
double hundredths(double value) { return base::parse_double(fmt::format("{:.2f}", value)).value_or(value); }

struct Range {
  double low, high;
  bool holds(double weight) const { return low <= weight && weight <= high; }
};

}  // namespace

void tell_balance(const Counts& counts, std::string_view name, const LabelWeights& weights,
                  base::LogSink& log) {
  const int64_t labelled = counts.desirable;
  if (labelled == 0 || labelled == counts.kept) {
    log.warning(
        "data",
        "{}: label is {} in all of {}: KTO needs desirable and undesirable completions; from one kind "
        "alone it only learns to make all completions {} likely",
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
  log.warning(
      "data",
      "{}: You have different amounts of desirable/positive and undesirable/negative examples but the "
      "weights on the desirable and undesirable losses don't seem to be in an ideal range. Based on "
      "your data, we recommend EITHER desirable_weight in [{}, {}] or undesirable_weight in [{}, {}] "
      "(but NOT BOTH).",
      name, first.low, first.high, second.low, second.high);
}

}  // namespace trl::data
