// A plan for a terminal. The timeline of one step is columns of letters, one letter a term, only ASCII.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/number.h"
#include "report/chart.h"
#include "report/plan_report.h"

namespace trl::report {

namespace {

constexpr int64_t kLines = 14, kMargin = 11;

// Returns for each column the moment to show: the one with most bytes in that column, or the previous
// column's.
std::vector<size_t> shown_moments(const telemetry::RunPlan& plan, int64_t columns) {
  const size_t none = plan.timeline.size();
  std::vector<size_t> shown(static_cast<size_t>(columns), none);
  for (size_t i = 0; i < none; ++i) {
    const double place = moment_place(plan, i) * static_cast<double>(columns);
    size_t& at = shown[static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(place), 0, columns - 1))];
    if (at == none || bytes_at(plan, i) > bytes_at(plan, at)) at = i;
  }
  size_t before = 0;
  for (size_t& at : shown) {
    if (at == none) at = before;
    before = at;
  }
  return shown;
}

// Returns the letter of the term that these bytes, counted from below, belong to; a space above all terms.
char letter_at(const telemetry::RunPlan& plan, size_t moment, double bytes, const PlanTerms& terms) {
  double sum = 0;
  const std::vector<int64_t>& held = plan.timeline[moment].bytes;
  for (size_t term = 0; term < held.size(); ++term) {
    sum += static_cast<double>(held[term]);
    if (bytes < sum) return terms.letter(terms.index(plan.terms[term].name));
  }
  return ' ';
}

// Writes the beginning of each stage and its peak, on as many lines as needed.
std::string stage_lines(const telemetry::RunPlan& plan, int64_t columns) {
  std::vector<std::string> lines;
  for (const PlanStage& stage : plan_stages(plan)) {
    const double place = moment_place(plan, stage.first) * static_cast<double>(columns);
    const std::string words = fmt::format("^{} {}", stage.name, base::bytes_text(stage.bytes));
    const auto size = static_cast<int64_t>(words.size());
    // The words are before a mark that is too far right for them.
    int64_t begin = std::clamp<int64_t>(static_cast<int64_t>(place), 0, columns - 1);
    std::string text = words;
    if (begin + size > columns) {
      text = words.substr(1) + "^";
      begin = std::max<int64_t>(0, begin + 1 - size);
    }
    const auto fits = [&](const std::string& line) {
      return line.empty() || begin > static_cast<int64_t>(line.size());
    };
    auto line = std::ranges::find_if(lines, fits);
    if (line == lines.end()) line = lines.insert(lines.end(), "");
    line->resize(static_cast<size_t>(begin), ' ');
    *line += text;
  }
  std::string out;
  for (const std::string& line : lines) out += fmt::format("{:{}}{}\n", "", kMargin, line);
  return out;
}

constexpr int64_t kColumns = 60;

// Returns a line of a table, below its name if the name is too long for the first column.
std::string named_line(const std::string& name, size_t width, const std::string& numbers) {
  if (name.size() <= width) return fmt::format("{:<{}}{}\n", name, width, numbers);
  return fmt::format("{}\n{:{}}{}\n", name, "", width, numbers);
}

std::string term_lines(const telemetry::RunPlan& plan, const PlanTerms& terms) {
  const auto line = [](const std::string& name, std::string_view at_peak, std::string_view most) {
    return named_line(name, 38, fmt::format("{:>11}{:>11}", at_peak, most));
  };
  std::string out = line("memory", "at the peak", "at most");
  for (const auto& term : plan.terms) {
    out += line(fmt::format("  {} {}", terms.letter(terms.index(term.name)), term.name),
                base::bytes_text(term.bytes), base::bytes_text(term.most_bytes));
  }
  return out + fmt::format("{:<38}{:>11}\n", "peak", base::bytes_text(plan.peak_bytes));
}

// Draws the terms at the peak as a bar of their letters.
std::string letters_bar(const telemetry::RunPlan& plan, const PlanTerms& terms, double top, int64_t columns) {
  std::string bar;
  double sum = 0;
  for (const auto& term : plan.terms) {
    sum += static_cast<double>(term.bytes);
    const auto end = static_cast<size_t>(std::llround(sum / top * static_cast<double>(columns)));
    if (end > bar.size()) bar.resize(end, terms.letter(terms.index(term.name)));
  }
  return bar;
}

std::string set_lines(const Sets& sets, const PlanTerms& terms) {
  const auto numbers = [](std::string_view peak, std::string_view speed, std::string_view time,
                          std::string_view disk) {
    return fmt::format("{:>9}{:>9}{:>14}{:>10}", peak, speed, time, disk);
  };
  constexpr size_t kNames = 18;
  std::string out = named_line("option sets", kNames, numbers("peak", "tokens/s", "time", "disk"));
  const double top = highest_peak(sets);
  for (const telemetry::PlannedSet& set : sets) {
    if (set.refused) {
      out += wrapped(set.options, kColumns - 2, "  ") +
             wrapped("refused: " + set.refused->message, kColumns - 4, "    ");
      continue;
    }
    const telemetry::RunPlan& plan = set.plan;
    const bool is_long = set.options.size() + 2 > kNames;
    if (is_long) out += wrapped(set.options, kColumns - 2, "  ");
    out += named_line(is_long ? "" : "  " + set.options, kNames,
                      numbers(base::bytes_text(plan.peak_bytes), base::rate_text(plan.time.tokens_per_second),
                              plan.time.tokens > 0 ? base::duration_text(plan.time.seconds) : "-",
                              base::bytes_text(plan.disk.needed_bytes)));
    out += fmt::format("    {}\n", letters_bar(plan, terms, top, kColumns - 4));
  }
  return out;
}

// Returns "disk       300 B for the model; 5 kB free", a line for each text.
std::string labelled(std::string_view label, const std::vector<std::string>& texts) {
  constexpr int64_t kIndent = 11;
  std::string out;
  for (const std::string& text : texts)
    out += wrapped(text, kColumns - kIndent, std::string(static_cast<size_t>(kIndent), ' '));
  return out.replace(0, label.size(), label);
}

std::string time_lines(const telemetry::RunPlan::Time& time) {
  const std::string step =
      fmt::format("{} a step of {}, {} tokens/s", base::duration_text(time.seconds_per_step),
                  base::quantity(time.tokens_per_step, "token"), base::rate_text(time.tokens_per_second));
  if (time.tokens <= 0) return labelled("time", {step, "of the run: known with max_steps or the rows"});
  return labelled("time", {fmt::format("{} for {}", base::duration_text(time.seconds),
                                       base::quantity(time.steps, "step")),
                           step});
}

std::string with_free(int64_t bytes, const char* what, int64_t free) {
  return base::bytes_text(bytes) + what + (free >= 0 ? fmt::format("; {} free", base::bytes_text(free)) : "");
}

std::string disk_lines(const telemetry::RunPlan::Disk& disk) {
  std::string saved = fmt::format("{} for the model", base::bytes_text(disk.model_bytes));
  if (disk.checkpoints > 0) {
    const double all = static_cast<double>(disk.checkpoints) * static_cast<double>(disk.checkpoint_bytes);
    saved +=
        fmt::format(", {} for {}", base::bytes_text(all), base::quantity(disk.checkpoints, "checkpoint"));
  }
  std::vector<std::string> lines = {std::move(saved)};
  if (const int64_t lacking = disk.needed_bytes - disk.free_bytes; disk.free_bytes >= 0)
    lines.push_back(
        base::bytes_text(disk.free_bytes) + " free" +
        (lacking > 0 ? fmt::format(", {} too little: it is refused", base::bytes_text(lacking)) : ""));
  if (const auto& away = disk.offloaded)
    lines.push_back(with_free(away->needed_bytes, " for what leaves memory", away->free_bytes));
  if (const auto& states = disk.frozen_states; states && states->bytes)
    lines.push_back(with_free(*states->bytes, " for the states of frozen layers", states->free_bytes));
  return labelled("disk", lines);
}

std::string cache_line(const telemetry::RunPlan& plan) {
  return labelled("KV cache",
                  {fmt::format("{} for {}, in generation only", base::bytes_text(plan.cache_bytes),
                               base::quantity(plan.cache_tokens, "token"))});
}

// Returns lines about what sample_prompts or estimate.prompt_tokens generate.
std::string generation_lines(std::string_view label,
                             const std::optional<telemetry::RunPlan::Generation>& generation) {
  if (!generation) return {};
  const telemetry::RunPlan::Generation& all = *generation;
  using base::bytes_text;
  std::string of = fmt::format("{} of {}", base::quantity(all.prompts, "prompt"),
                               base::quantity(all.prompt_tokens, "token"));
  if (all.completions > 1) of += fmt::format(", {} completions each", all.completions);
  of += fmt::format(", up to {} each", base::quantity(all.max_new_tokens, "new token"));
  return labelled(label,
                  {of,
                   fmt::format("keys and values {} of {}, in {} of {} tokens; {} of this length fit",
                               bytes_text(all.kv_bytes), bytes_text(all.kv_limit_bytes),
                               base::quantity(all.blocks, "block"), all.block_tokens,
                               base::quantity(all.sequences_that_fit, "sequence")),
                   fmt::format("weights {} beside the run's, copies {}, logits {}, work {}",
                               bytes_text(all.weights_bytes), bytes_text(all.copies_bytes),
                               bytes_text(all.logits_bytes), bytes_text(all.work_bytes)),
                   fmt::format("{} in all, {} asleep; the process has {} at the peak", bytes_text(all.bytes),
                               bytes_text(all.asleep_bytes), bytes_text(all.peak_bytes)),
                   fmt::format("a server takes {} more from its first update of all weights until it sleeps",
                               bytes_text(all.update_bytes))});
}

std::string merge_lines(const std::optional<telemetry::RunPlan::Merge>& merge) {
  if (!merge) return {};
  return labelled("merging",
                  {fmt::format("{} while the adapter is in the weights", base::bytes_text(merge->bytes)),
                   fmt::format("{} in a save with save.kind merged; the process has {} then",
                               base::bytes_text(merge->save_bytes), base::bytes_text(merge->peak_bytes))});
}

}  // namespace

std::string wrapped(const std::string& text, int64_t columns, const std::string& indent) {
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && static_cast<int64_t>(line.size() + 1 + word.size()) > columns) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return line.empty() ? out : out + indent + line + "\n";
}

std::string plan_text(const Sets& sets) {
  const telemetry::RunPlan& plan = sets.front().plan;
  const PlanTerms terms(sets);
  std::string out = term_lines(plan, terms);
  out += "\none step, from opening the model on, in the letters above\n";
  out += text_timeline(plan, terms, kColumns);
  if (sets.size() > 1) out += "\n" + set_lines(sets, terms);
  if (!plan.way.empty()) out += "\n" + wrapped("memory_budget: " + plan.way, kColumns, "");
  return out + "\n" + time_lines(plan.time) + disk_lines(plan.disk) + cache_line(plan) +
         generation_lines("samples", plan.samples) + generation_lines("generation", plan.generation) +
         merge_lines(plan.merge);
}

std::string text_timeline(const telemetry::RunPlan& plan, const PlanTerms& terms, int64_t columns) {
  if (plan.timeline.empty()) return {};
  columns -= kMargin;
  const double top = std::max(1.0, static_cast<double>(plan.peak_bytes));
  const std::vector<size_t> shown = shown_moments(plan, columns);
  std::vector<std::string> labels(kLines);
  for (const double tick : round_ticks(0, top, 4)) {
    const auto line = static_cast<int64_t>(std::ceil(tick / top * kLines)) - 1;
    if (line >= 0 && line < kLines - 1) labels[static_cast<size_t>(line)] = base::bytes_text(tick);
  }
  labels.back() = base::bytes_text(top);
  std::string out;
  for (int64_t line = kLines; line-- > 0;) {
    const std::string& label = labels[static_cast<size_t>(line)];
    std::string text = fmt::format("{:>{}}{}", label, kMargin - 2, label.empty() ? " |" : " +");
    const double bytes = (static_cast<double>(line) + 0.5) / kLines * top;
    for (const size_t moment : shown) text += letter_at(plan, moment, bytes, terms);
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  out += fmt::format("{:>{}} +{}\n", "0", kMargin - 2, std::string(static_cast<size_t>(columns), '-'));
  return out + stage_lines(plan, columns);
}

}  // namespace trl::report
