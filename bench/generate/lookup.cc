#include <algorithm>
#include <stdexcept>

#include "generate/local.h"
#include "generate/session.h"
#include "support/child.h"

namespace trl::bench {

namespace {

constexpr engine::Speculation kLookup{.tokens = 10, .most_ngram = 4, .least_ngram = 2};

// A passage twice and the beginning of a third time, as where code or a text is given back with changes.
std::vector<int32_t> copying(Prompts& prompts, int64_t length) {
  const std::vector<int32_t> passage = prompts.next(length);
  std::vector<int32_t> ids = passage;
  ids.insert(ids.end(), passage.begin(), passage.end());
  ids.insert(ids.end(), passage.begin(), passage.begin() + std::min<int64_t>(16, length));
  return ids;
}

// One side: its speed in each round, and the last ids.
struct Timed {
  std::vector<double> tokens_per_second;
  std::vector<std::vector<int32_t>> ids;
};

void run(Session& session, const std::vector<generate::Request>& requests, Timed& side) {
  std::vector<int64_t> numbers;
  for (const generate::Request& request : requests) numbers.push_back(session.add(request));
  session.run_until_all_began();
  const double begin = now();
  session.run();
  const double end = now();
  int64_t tokens = 0;
  side.ids.clear();
  for (const int64_t number : numbers) {
    const Session::Text& text = session.texts().at(number);
    side.ids.push_back(text.ids);
    tokens += std::ranges::count_if(text.times, [&](double time) { return time > begin; });
  }
  side.tokens_per_second.push_back(static_cast<double>(tokens) / (end - begin));
  session.forget();
}

void compare(const GenerateSettings& s, const char* texts, const model::Model& model, const Form& form,
             const std::vector<generate::Request>& requests) {
  std::vector<generate::Request> looking = requests;
  int64_t blocks = 0;
  for (generate::Request& request : looking) {
    request.sampling.speculation = kLookup;
    blocks += blocks_for(1, std::ssize(request.ids) + request.sampling.max_new_tokens);
  }
  generate::CacheKind kind = form.kind;
  kind.int8 = s.int8_cache;
  Session session(model, kind, blocks, false);
  Timed plain, lookup;
  interleave(2, s.rounds + 1,
             [&](size_t i) { i == 0 ? run(session, requests, plain) : run(session, looking, lookup); });
  if (plain.ids != lookup.ids) throw std::runtime_error("prompt lookup has changed a token");
  // The first round meets unknown speeds and cold memory.
  for (Timed* const side : {&plain, &lookup}) side->tokens_per_second.erase(side->tokens_per_second.begin());
  const engine::GenerationUse use = session.generator().use();
  print({{"bench", "lookup"},
         {"texts", texts},
         {"weights", form.name},
         {"int8_cache", s.int8_cache},
         {"sequences", requests.size()},
         {"tokens_per_second", median(lookup.tokens_per_second)},
         {"tokens_per_second_without", median(plain.tokens_per_second)},
         {"ratio", median(lookup.tokens_per_second) / median(plain.tokens_per_second)},
         {"proposed", use.proposed},
         {"accepted", use.accepted}});
}

}  // namespace

void measure_lookup(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts) {
  if (s.text.empty() && s.only.empty()) return;
  if (s.text.empty()) throw std::runtime_error("lookup: give the passages that are copied, --text FILE");
  const int64_t passage = s.context / 2, new_tokens = std::min<int64_t>(passage, 4 * s.new_tokens);
  generate::Request copy{.ids = copying(prompts, passage), .sampling = {}};
  copy.sampling.max_new_tokens = new_tokens;
  compare(s, "copies", model, form, {copy});
  std::vector<generate::Request> drawn;
  for (uint64_t i = 0; i < 8; ++i) {
    generate::Request& request = drawn.emplace_back();
    request.ids = prompts.next(s.context);
    request.sampling.max_new_tokens = new_tokens;
    request.sampling.temperature = 1;
    request.stream = i;
  }
  compare(s, "free", model, form, drawn);
}

}  // namespace trl::bench
