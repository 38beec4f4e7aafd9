// trl_option_*: the walk over the option table. An option's handle is its row; a pointer to anything else is
// refused.
#include <memory>
#include <string>
#include <vector>

#include "capi/guard.h"
#include "config/table/option.h"
#include "config/table/option_value.h"

using namespace trl::capi;

// One row of the table as NUL-terminated texts, made once and leaked.
struct trl_option {
  const trl::config::Option* option;
  std::string name, section, group, origin, trainers, aliases, other_names, since, unsupported, taken,
      ignored;
};

namespace {

using trl::config::Option;

const std::vector<trl_option>& table() {
  static const std::vector<trl_option>* const rows = [] {
    auto made = std::make_unique<std::vector<trl_option>>();
    for (const Option& o : trl::config::options())
      made->push_back({&o, std::string(o.name), std::string(o.section), std::string(o.group),
                       std::string(o.origin), trl::config::trainer_names(o.trainers, ","),
                       std::string(o.aliases), std::string(trl::config::other_names(o)), std::string(o.since),
                       std::string(o.unsupported), std::string(o.no_ops), std::string(o.warning)});
    return made.release();
  }();
  return *rows;
}

const trl_option* known(const trl_option* option) {
  for (const trl_option& row : table())
    if (&row == option) return option;
  return nullptr;
}

const char* field(const trl_option* option, std::string trl_option::*member) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const trl_option* row = known(option);
    return row != nullptr ? (row->*member).c_str() : nullptr;
  });
}

// Returns the row of an option in a trainer; null: it does not have it. trainer: null: the table's.
const Option* row_in(const trl_option* option, const char* trainer) {
  const trl_option* const row = known(option);
  if (row == nullptr || (trainer != nullptr && !trl::config::is_of(*row->option, trainer))) return nullptr;
  return row->option;
}

// Returns the text of a view into the table; it ends with its literal, so it is NUL-terminated.
const char* text_in(const trl_option* option, const char* trainer,
                    std::string_view (*of)(const Option&, std::string_view)) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const Option* const row = row_in(option, trainer);
    return row != nullptr ? of(*row, trainer != nullptr ? trainer : "").data() : nullptr;
  });
}

}  // namespace

const trl_option* trl_option_next(const trl_option* previous) noexcept {
  return answer(nullptr, [&]() -> const trl_option* {
    const auto& rows = table();
    if (previous == nullptr) return rows.empty() ? nullptr : rows.data();
    const trl_option* row = known(previous);
    return row == nullptr || row == &rows.back() ? nullptr : row + 1;
  });
}

const char* trl_option_name(const trl_option* o) noexcept { return field(o, &trl_option::name); }
const char* trl_option_section(const trl_option* o) noexcept { return field(o, &trl_option::section); }
const char* trl_option_group(const trl_option* o) noexcept { return field(o, &trl_option::group); }
const char* trl_option_origin(const trl_option* o) noexcept { return field(o, &trl_option::origin); }
const char* trl_option_trainers(const trl_option* o) noexcept { return field(o, &trl_option::trainers); }
const char* trl_option_aliases(const trl_option* o) noexcept { return field(o, &trl_option::aliases); }
const char* trl_option_other_names(const trl_option* o) noexcept {
  return field(o, &trl_option::other_names);
}
const char* trl_option_since(const trl_option* o) noexcept { return field(o, &trl_option::since); }
const char* trl_option_unsupported_reason(const trl_option* o) noexcept {
  return field(o, &trl_option::unsupported);
}
const char* trl_option_ignored_reason(const trl_option* o) noexcept { return field(o, &trl_option::ignored); }
const char* trl_option_taken(const trl_option* o) noexcept { return field(o, &trl_option::taken); }

const char* trl_option_default(const trl_option* option, const char* trainer) noexcept {
  return text_in(option, trainer, &trl::config::default_of);
}
const char* trl_option_accepted(const trl_option* option, const char* trainer) noexcept {
  return text_in(option, trainer, &trl::config::accepted_of);
}
const char* trl_option_doc(const trl_option* option, const char* trainer) noexcept {
  return text_in(option, trainer, &trl::config::doc_of);
}

int32_t trl_option_type(const trl_option* option, const char* trainer) noexcept {
  return answer(-1, [&] {
    const Option* const row = row_in(option, trainer);
    return row != nullptr
               ? static_cast<int32_t>(trl::config::type_of(*row, trainer != nullptr ? trainer : ""))
               : -1;
  });
}

int32_t trl_option_nullable(const trl_option* option) noexcept {
  return answer(-1, [&] {
    const trl_option* row = known(option);
    return row != nullptr ? static_cast<int32_t>(row->option->nullable) : -1;
  });
}
