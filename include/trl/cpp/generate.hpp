// Models, and what they write. Included by trl/trl.hpp.
#ifndef TRL_CPP_GENERATE_HPP
#define TRL_CPP_GENERATE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data.hpp"
#include "tensor.hpp"

namespace trl {
inline namespace cpp {

// ---- completions and generators --------------------------------------------------------------------------

struct Completion {
  std::string text;
  std::vector<std::int32_t> token_ids;
  std::string finish_reason;  // empty: it goes on
  std::string json;
};

namespace detail {

template <class Function>
std::int32_t on_token(void* function, std::size_t completion, std::int32_t token, const char* text,
                      std::size_t size, double log_probability) {
  return guard([&] {
    return answer(*static_cast<Function*>(function), completion, token, TextView(text, size),
                  log_probability);
  });
}

// Computes a token of each completion that runs. What the function throws ends its completion alone, and is
// thrown again after the step.
template <class Function>
bool step(trl_generator* generator, Function& function) {
  std::exception_ptr thrown;
  auto told = [&](std::size_t completion, std::int32_t token, TextView text,
                  double log_probability) -> std::int32_t {
    try {
      return answer(function, completion, token, std::move(text), log_probability);
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      return 1;
    }
  };
  bool more = false;
  try {
    more = call(trl_generator_step, generator, on_token<decltype(told)>, &told) != TRL_END;
  } catch (...) {
    if (!thrown) throw;
  }
  if (thrown) std::rethrow_exception(thrown);
  return more;
}

// Texts as the library takes several.
struct Texts {
  explicit Texts(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      data.push_back(text.data());
      sizes.push_back(text.size());
    }
  }
  std::vector<const char*> data;
  std::vector<std::size_t> sizes;
};

}  // namespace detail

class Completions : public detail::Handle<trl_completions, trl_completions_destroy> {
 public:
  using Handle::Handle;
  using value_type = Completion;
  using const_iterator = detail::Iterator<detail::Index<Completions>>;

  std::size_t size() const noexcept {
    std::size_t count = 0;
    while (trl_completions_text(get(), count, nullptr) != nullptr) ++count;
    return count;
  }
  // A copy of completion number `index`; std::out_of_range if there is none.
  Completion operator[](std::size_t index) const {
    std::size_t size = 0, count = 0, bytes = 0;
    const char* text = trl_completions_text(get(), index, &size);
    if (text == nullptr) throw std::out_of_range("there is no completion " + std::to_string(index));
    const std::int32_t* ids = trl_completions_tokens(get(), index, &count);
    const char* json = trl_completions_json(get(), index, &bytes);
    return {std::string(text, size), std::vector<std::int32_t>(ids, ids + count),
            detail::text_or_empty(trl_completions_finish_reason(get(), index)), std::string(json, bytes)};
  }
  const_iterator begin() const { return const_iterator({this, 0}); }
  const_iterator end() const { return const_iterator({this, size()}); }
};

struct Token {
  std::size_t completion;
  std::int32_t id;
  std::string text;        // whole characters; empty while one is unfinished
  double log_probability;  // NaN without generate.logprobs
};

namespace detail {
struct StreamPosition;
}

// The tokens of one completion, as they are computed. Other requests of the generator go on meanwhile, and
// leaving the stream ends this one. The generator must be there until then.
class Stream {
 public:
  Stream(trl_generator* generator, std::size_t first) noexcept
      : generator_(generator), first_(first), next_(0), over_(false) {}
  Stream(Stream&& other) noexcept
      : generator_(other.generator_),
        first_(other.first_),
        next_(other.next_),
        over_(other.over_),
        found_(std::move(other.found_)) {
    other.generator_ = nullptr;
  }
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (generator_ == nullptr) return;
    detail::Handle<trl_completions, trl_completions_destroy> rest;
    trl_generator_cancel(generator_, first_, 1, nullptr);
    trl_generator_take(generator_, first_, 1, rest.receive(), nullptr);
  }

  // Computes the next token; false when there is none.
  bool next(Token& token) {
    while (next_ == found_.size()) {
      if (over_) return false;
      found_.clear();
      next_ = 0;
      auto collect = [this](std::size_t completion, std::int32_t id, TextView text, double log_probability) {
        if (completion == first_) found_.push_back({completion, id, text, log_probability});
      };
      over_ = !detail::step(generator_, collect);
    }
    token = std::move(found_[next_++]);
    return true;
  }

  using value_type = Token;
  using iterator = detail::Iterator<detail::StreamPosition>;
  iterator begin();
  iterator end();

 private:
  trl_generator* generator_;
  std::size_t first_;
  std::size_t next_;
  bool over_;
  std::vector<Token> found_;
};

namespace detail {

struct StreamPosition {
  using value_type = Token;
  Stream* stream;  // nullptr: the end
  Token token;

  const Token& item() const noexcept { return token; }
  void next() {
    if (!stream->next(token)) stream = nullptr;
  }
  bool same(const StreamPosition& other) const noexcept { return stream == other.stream; }
};

}  // namespace detail

inline Stream::iterator Stream::begin() {
  iterator first({this, Token()});
  return ++first;
}
inline Stream::iterator Stream::end() { return iterator(); }

// Made by Model::generator and Trainer::generator. A token function gets (std::size_t completion,
// std::int32_t token, trl::TextView text, double log_probability), and ends that completion by a result
// other than 0.
class Generator : public detail::Handle<trl_generator, trl_generator_destroy> {
 public:
  using Handle::Handle;

  // Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j.
  Completions generate(const std::vector<std::string>& prompts, const Options& options = Options()) {
    return generate_with(prompts, options, nullptr, nullptr);
  }
  template <class Function>
  Completions generate(const std::vector<std::string>& prompts, const Options& options, Function on_token) {
    return generate_with(prompts, options, detail::on_token<Function>, &on_token);
  }

  // Adds a request, a text or token ids; returns the number of its first completion.
  std::size_t add(TextView text, const Options& options = Options()) {
    return add_request(text, View<std::int32_t>(), options);
  }
  std::size_t add(View<std::int32_t> ids, const Options& options = Options()) {
    return add_request(TextView(), ids, options);
  }
  // Computes a token of each completion that runs; false if there was nothing to do. What the function throws
  // ends its completion alone, and is thrown again when the step is done.
  bool step() { return detail::call(trl_generator_step, get(), nullptr, nullptr) != TRL_END; }
  template <class Function>
  bool step(Function on_token) {
    return detail::step(get(), on_token);
  }
  void extend(std::size_t completion, TextView text, const Options& options = Options()) {
    extend_request(completion, text, View<std::int32_t>(), options);
  }
  void extend(std::size_t completion, View<std::int32_t> ids, const Options& options = Options()) {
    extend_request(completion, TextView(), ids, options);
  }
  void cancel(std::size_t first, std::size_t count = 1) {
    detail::call(trl_generator_cancel, get(), first, count);
  }
  Completions take(std::size_t first, std::size_t count = 1) {
    Completions taken;
    detail::call(trl_generator_take, get(), first, count, taken.receive());
    return taken;
  }
  // for (const trl::Token& token : generator.stream("Once"))
  Stream stream(TextView text, const Options& options = Options()) {
    return Stream(get(), add(text, options));
  }
  Stream stream(View<std::int32_t> ids, const Options& options = Options()) {
    return Stream(get(), add(ids, options));
  }
  void release_memory() { detail::call(trl_generator_release_memory, get()); }

 private:
  Completions generate_with(const std::vector<std::string>& prompts, const Options& options,
                            trl_token_fn on_token, void* user_data) {
    const detail::Texts texts(prompts);
    Completions completions;
    detail::call(trl_generator_generate, get(), texts.data.data(), texts.sizes.data(), texts.data.size(),
                 options.get(), on_token, user_data, completions.receive());
    return completions;
  }
  std::size_t add_request(TextView text, View<std::int32_t> ids, const Options& options) {
    std::size_t first = 0;
    detail::call(trl_generator_add, get(), text.data(), text.size(), ids.data(), ids.size(), options.get(),
                 &first);
    return first;
  }
  void extend_request(std::size_t completion, TextView text, View<std::int32_t> ids, const Options& options) {
    detail::call(trl_generator_extend, get(), completion, text.data(), text.size(), ids.data(), ids.size(),
                 options.get());
  }
};

// ---- model -----------------------------------------------------------------------------------------------

class Model : public detail::Handle<trl_model, trl_model_destroy> {
 public:
  using Handle::Handle;
  Model() noexcept = default;
  explicit Model(const std::string& path, const Options& options = Options(),
                 const Runtime* runtime = nullptr) {
    detail::call(trl_model_open, detail::raw(runtime), detail::terminated(path), options.get(), receive());
  }

  std::string describe() const { return detail::ask(trl_model_describe, get()); }
  // Lists the tensors as JSON.
  std::string tensors() { return detail::ask(trl_model_get_tensors, get()); }
  // form: a TensorForm.
  Tensor read_tensor(const std::string& name, std::int32_t form = TensorForm::copy) {
    Tensor made;
    detail::call(trl_model_read_tensor, get(), detail::terminated(name), form, made.receive());
    return made;
  }
  void write_tensor(const std::string& name, const Tensor& tensor) {
    detail::LentTensor lent(tensor.get());
    detail::call(trl_model_write_tensor, get(), detail::terminated(name), lent.get());
  }
  void add_adapter(const std::string& name, const std::string& path) {
    detail::call(trl_model_add_adapter, get(), detail::terminated(name), detail::terminated(path));
  }
  void remove_adapter(const std::string& name) {
    detail::call(trl_model_remove_adapter, get(), detail::terminated(name));
  }
  void use_adapter(const std::string& name) {
    detail::call(trl_model_use_adapter, get(), detail::terminated(name));
  }
  void use_adapter(std::nullptr_t) { detail::call(trl_model_use_adapter, get(), nullptr); }
  void merge_adapter(const std::string& name) {
    detail::call(trl_model_merge_adapter, get(), detail::terminated(name));
  }
  void merge_adapter(std::nullptr_t) { detail::call(trl_model_merge_adapter, get(), nullptr); }
  void save(const std::string& path, const Options& options = Options()) {
    detail::call(trl_model_save, get(), detail::terminated(path), options.get());
  }
  std::vector<float> score(const std::vector<std::string>& texts, std::int32_t form = TextForm::answer,
                           const Options& options = Options()) {
    const detail::Texts all(texts);
    std::vector<float> scores(texts.size());
    detail::call(trl_model_score, get(), all.data.data(), all.sizes.data(), texts.size(), form, options.get(),
                 scores.data());
    return scores;
  }
  // With the model's own tokenizer, or another one.
  Generator generator(const Tokenizer* tokenizer = nullptr) {
    Generator made;
    detail::call(trl_generator_create, get(), detail::raw(tokenizer), made.receive());
    return made;
  }
};

inline void convert(const std::string& path, const std::string& target, const Options& options = Options(),
                    const Runtime* runtime = nullptr) {
  detail::call(trl_model_convert, detail::raw(runtime), detail::terminated(path), detail::terminated(target),
               options.get());
}

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_GENERATE_HPP
