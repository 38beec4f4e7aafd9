#include "generate/child.h"

#include <fstream>

#include "generate/form.h"
#include "generate/session.h"
#include "tensor/threads/parallel.h"

namespace trl::bench {

namespace {

Json texts_of(const Session& session) {
  Json all = Json::array();
  for (const auto& [sequence, text] : session.texts()) all.push_back(text.ids);
  return all;
}

// Products and pages that are used for the first time.
void warm_up(Session& session, const Json& rows) {
  session.add(rows.at("prompts")[0], 4);
  session.run();
  session.forget();
}

// Steps from the most sequences to the fewest.
void time_all(Session& session, const Json& work, Json& out) {
  Json rates = Json::array();
  const std::vector<int64_t> sequences = work.at("sequences");
  session.run_until_all_began();
  for (auto count = sequences.rbegin(); count != sequences.rend(); ++count) {
    session.end_all_but(*count);
    const Steps steps = time_steps(session, work.at("steps"));
    if (count == sequences.rbegin()) out["texts"] = texts_of(session);
    const double rate = static_cast<double>(*count) / median(steps.seconds);
    rates.push_back({{"sequences", *count}, {"context", steps.context}, {"tokens_per_second", rate}});
  }
  out["steps"] = rates;
}

void complete_all(Session& session, double begin, Json& out) {
  session.run();
  const double seconds = now() - begin;
  double began = 0;
  int64_t tokens = 0, later = 0;  // later: after all texts began
  for (const auto& [sequence, text] : session.texts()) began = std::max(began, text.times.front());
  for (const auto& [sequence, text] : session.texts()) {
    tokens += std::ssize(text.ids);
    later += std::ranges::count_if(text.times, [&](double time) { return time > began; });
  }
  out["seconds"] = seconds;
  out["tokens_per_second"] = static_cast<double>(tokens) / seconds;
  out["seconds_to_first"] = began - begin;
  out["decoded_per_second"] = static_cast<double>(later) / (seconds - (began - begin));
  out["texts"] = texts_of(session);
}

}  // namespace

Json run_work(const Json& work) {
  tensor::set_threads(work.at("threads"));
  const Json rows = Json::parse(std::ifstream(work.at("file").get<std::string>()));
  const Form form = form_of(work.at("form"));
  const auto model = model::Model::open(work.at("model").get<std::string>(), form.dtype);
  const std::vector<int64_t> new_tokens = rows.at("new_tokens");
  int64_t blocks = 0;
  for (size_t i = 0; i < new_tokens.size(); ++i)
    blocks += blocks_for(1, std::ssize(rows.at("prompts")[i]) + new_tokens[i]);
  // Prompts of steps that begin alike are to have blocks of their own.
  Session session(*model, form.kind, blocks, !work.contains("steps"));
  warm_up(session, rows);
  const double begin = now();
  for (size_t i = 0; i < new_tokens.size(); ++i) session.add(rows.at("prompts")[i], new_tokens[i]);
  Json out = {{"by", "libtrl"}};
  if (work.contains("steps"))
    time_all(session, work, out);
  else
    complete_all(session, begin, out);
  out["peak_resident_bytes"] = peak_resident();
  return out;
}

}  // namespace trl::bench
