// Tokenizers and rows. Included by trl/trl.hpp.
#ifndef TRL_CPP_DATA_HPP
#define TRL_CPP_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config.hpp"

namespace trl {
inline namespace cpp {

// ---- tokenizer -------------------------------------------------------------------------------------------

class Tokenizer : public detail::Handle<trl_tokenizer, trl_tokenizer_destroy> {
 public:
  using Handle::Handle;
  Tokenizer() noexcept = default;
  explicit Tokenizer(const std::string& path, const Options& options = Options(),
                     const Runtime* runtime = nullptr) {
    detail::call(trl_tokenizer_open, detail::raw(runtime), detail::terminated(path), options.get(),
                 receive());
  }

  // split_special_tokens 1: special tokens that text spells out are text; 0: they are not; below 0: as the
  // key of this name says.
  std::vector<std::int32_t> encode(TextView text, bool add_special_tokens = true,
                                   std::int32_t split_special_tokens = -1) const {
    return detail::fill<std::vector<std::int32_t>>(
        text.size() + 8, [&](std::int32_t* ids, std::size_t capacity, std::size_t* count) {
          detail::call(trl_tokenizer_encode, get(), text.data(), text.size(), add_special_tokens,
                       split_special_tokens, ids, capacity, count);
        });
  }
  std::string decode(View<std::int32_t> ids, bool skip_special_tokens = false) const {
    return text(trl_tokenizer_decode, ids.size() * 8, ids.data(), ids.size(), skip_special_tokens);
  }
  std::string piece(std::int32_t id) const { return text(trl_tokenizer_get_piece, 64, id); }
  // json: a list of messages, or an object with `messages`.
  std::string apply_chat_template(TextView json) const {
    return text(trl_tokenizer_apply_chat_template, json.size() * 2, json.data(), json.size());
  }
  std::string describe() const { return detail::ask(trl_tokenizer_describe, get()); }

 private:
  template <class... Parameters, class... Arguments>
  std::string text(trl_status (*function)(Parameters...), std::size_t capacity,
                   Arguments... arguments) const {
    return detail::fill<std::string>(capacity, [&](char* text, std::size_t room, std::size_t* size) {
      detail::call(function, get(), arguments..., text, room, size);
    });
  }
};

// ---- datasets --------------------------------------------------------------------------------------------

// One row, within the function that gives it.
class Record {
 public:
  explicit Record(trl_record* record) noexcept : record_(record) {}
  void set_text(const std::string& name, TextView text) {
    detail::call(trl_record_set_text, record_, detail::terminated(name), text.data(), text.size());
  }
  void set_ids(const std::string& name, View<std::int32_t> ids) {
    detail::call(trl_record_set_ids, record_, detail::terminated(name), ids.data(), ids.size());
  }
  void set_json(const std::string& name, TextView json) {
    detail::call(trl_record_set_json, record_, detail::terminated(name), json.data(), json.size());
  }

 private:
  trl_record* record_;
};

namespace detail {

template <class Next, class Rewind>
struct Rows {
  Next next;
  Rewind rewind;
};

template <class Next, class Rewind>
std::int32_t next_row(void* rows, trl_record* record) {
  static_assert(std::is_same<typename std::decay<Result<Next, Record&>>::type, bool>::value,
                "next returns true if it gave a row, and false if there is none");
  Record row(record);
  return guard(
      [&]() -> std::int32_t { return static_cast<Rows<Next, Rewind>*>(rows)->next(row) ? TRL_OK : TRL_END; });
}

template <class Next, class Rewind>
std::int32_t rewind_rows(void* rows) {
  return guard([&] { return answer(static_cast<Rows<Next, Rewind>*>(rows)->rewind); });
}

template <class Function>
std::int32_t on_batch(void* function, const char* json, std::size_t size) {
  return guard([&] { return answer(*static_cast<Function*>(function), TextView(json, size)); });
}

}  // namespace detail

// Numbers, and a plot or a page as text.
struct Profile {
  std::string json;
  std::string text;
};

class Dataset : public detail::Handle<trl_dataset, trl_dataset_destroy> {
 public:
  using Handle::Handle;
  Dataset() noexcept = default;
  explicit Dataset(const std::string& path, const Options& options = Options(),
                   const Runtime* runtime = nullptr) {
    detail::call(trl_dataset_open, detail::raw(runtime), detail::terminated(path), options.get(), receive());
  }
  // The rows that a configuration names, to train on and to evaluate; the second is empty if it names none.
  static std::pair<Dataset, Dataset> from_config(const Config& config, const Runtime* runtime = nullptr) {
    Dataset train, evaluation;
    detail::call(trl_dataset_open_config, detail::raw(runtime), config.get(), train.receive(),
                 evaluation.receive());
    return {std::move(train), std::move(evaluation)};
  }
  // format: jsonl, json, csv or text; data is copied.
  static Dataset from_buffer(const std::string& format, TextView data, const Options& options = Options(),
                             const Runtime* runtime = nullptr) {
    Dataset made;
    detail::call(trl_dataset_from_buffer, detail::raw(runtime), detail::terminated(format), data.data(),
                 data.size(), options.get(), made.receive());
    return made;
  }
  static Dataset from_arrow(ArrowArrayStream* stream, const Options& options = Options(),
                            const Runtime* runtime = nullptr) {
    Dataset made;
    detail::call(trl_dataset_from_arrow, detail::raw(runtime), stream, options.get(), made.receive());
    return made;
  }
  // bool next(trl::Record row) sets the columns of the next row, or returns false; rewind() starts over.
  template <class Next, class Rewind>
  static Dataset from_callback(Next next, Rewind rewind, const Options& options = Options(),
                               const Runtime* runtime = nullptr) {
    using Rows = detail::Rows<Next, Rewind>;
    Dataset made;
    detail::call(trl_dataset_from_callback, detail::raw(runtime), detail::next_row<Next, Rewind>,
                 detail::rewind_rows<Next, Rewind>,
                 detail::Given<Rows>(Rows{std::move(next), std::move(rewind)}), detail::forget<Rows>,
                 options.get(), made.receive());
    return made;
  }

  std::int64_t row_count() const {
    std::int64_t count = 0;
    detail::call(trl_dataset_get_row_count, get(), &count);
    return count;
  }
  Profile profile(const Tokenizer& tokenizer, const Options& options = Options()) const {
    const char *json = nullptr, *text = nullptr;
    detail::call(trl_dataset_get_profile, get(), tokenizer.get(), options.get(), &json, &text);
    return {json, text};
  }
  std::string example(const Tokenizer& tokenizer, std::int64_t row,
                      const Options& options = Options()) const {
    return detail::ask(trl_dataset_get_example, get(), tokenizer.get(), options.get(), row);
  }
  // function(trl::TextView json); a result above 0 sees no more.
  template <class Function>
  void visit_batches(const Tokenizer& tokenizer, std::int64_t first, std::int64_t count, Function function,
                     const Options& options = Options()) const {
    detail::call(trl_dataset_visit_batches, get(), tokenizer.get(), options.get(), first, count,
                 detail::on_batch<Function>, &function);
  }
};

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_DATA_HPP
