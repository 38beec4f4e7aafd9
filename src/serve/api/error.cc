#include "serve/api/error.h"

#include <new>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::serve {

namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 431:
    case 505:
      return "BadRequestError";
    case 401:
      return "Unauthorized";
    case 403:
      return "ForbiddenError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "RequestTimeoutError";
    case 409:
      return "ConflictError";
    case 429:
      return "TooManyRequestsError";
    case 501:
      return "NotImplementedError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "InternalServerError";
  }
}

int http_status(trl_status status) {
  switch (status) {
    case TRL_E_INVALID_ARGUMENT:
    case TRL_E_INVALID_CONFIG:
    case TRL_E_FORMAT:
    case TRL_E_UNSUPPORTED:
      return 400;
    case TRL_E_NOT_FOUND:
      return 404;
    case TRL_E_OUT_OF_MEMORY:
    case TRL_E_OUT_OF_DEVICE_MEMORY:
    case TRL_E_BUSY:
    case TRL_E_CANCELLED:
      return 503;
    default:
      return 500;
  }
}

// Fields of requests that are not named as their key is, without the group.
constexpr std::pair<std::string_view, std::string_view> kFields[] = {
    {"generate.max_new_tokens", "max_tokens"},
    {"generate.min_new_tokens", "min_tokens"},
    {"generate.num_return_sequences", "n"},
    {"generate.stream", "trl_stream"},
    {"generate.adapter", "model"}};
constexpr std::string_view kGroup = "generate.";

std::string field_of(std::string_view key) {
  for (const auto& [option, field] : kFields)
    if (option == key) return std::string(field);
  return std::string(key.starts_with(kGroup) ? key.substr(kGroup.size()) : key);
}

std::string dump(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

}  // namespace

std::string error_json(const Refusal& refusal) {
  const base::Json param = refusal.param.empty() ? base::Json() : base::Json(refusal.param);
  return dump({{"error",
                {{"message", refusal.message},
                 {"type", type_of(refusal.status)},
                 {"param", param},
                 {"code", refusal.status}}}});
}

Answer answer_of(const Refusal& refusal) {
  Answer answer{refusal.status, error_json(refusal)};
  if (refusal.status == 401) answer.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (refusal.status == 429 || refusal.status == 503) answer.fields.emplace_back("Retry-After", "1");
  return answer;
}

Answer old_answer_of(const Refusal& refusal) {
  if (refusal.status != 400) return answer_of(refusal);
  base::Json where = base::Json::array();
  where.push_back("body");
  if (!refusal.param.empty()) where.push_back(refusal.param);
  base::Json one = {{"type", "value_error"}, {"msg", refusal.message}, {"input", nullptr}};
  one["loc"] = std::move(where);
  base::Json detail = base::Json::array();
  detail.push_back(std::move(one));
  base::Json body = base::Json::object();
  body["detail"] = std::move(detail);
  return {422, dump(body)};
}

Refusal refusal_of(trl_status status, std::string_view message, std::string_view key) {
  const std::string field = field_of(key);
  std::string text(message);
  if (!key.empty() && text.starts_with(key)) text.replace(0, key.size(), field);
  for (const auto& [option, other] : kFields) {  // which may be named, too
    const std::string_view name = option.substr(kGroup.size());
    for (size_t at = 0; name.find('_') != name.npos && (at = text.find(name, at)) != text.npos;
         at += other.size())
      text.replace(at, name.size(), other);
  }
  return {http_status(status), std::move(text), field};
}

Refusal refusal_of(const trl_error* error) {
  const char* const key = trl_error_key(error);
  return refusal_of(trl_error_code(error), trl_error_message(error), key == nullptr ? "" : key);
}

// Its text is so short that it needs no memory of its own.
Refusal no_memory() noexcept { return {503, "out of memory"}; }

Refusal stopping() noexcept {
  return refused(503, "the server is stopping; send the request to another one");
}

Refusal current_refusal() noexcept {
  try {
    try {
      throw;
    } catch (const Refusal& refusal) {
      return refusal;
    } catch (const Error& error) {
      return refusal_of(static_cast<trl_status>(error.status()), error.message(), error.key());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return {500, error.what()};
    } catch (...) {
      return {500, "unexpected"};
    }
  } catch (...) {
    return no_memory();
  }
}

Refusal refusal_of(const std::exception_ptr& why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (...) {
    return current_refusal();
  }
}

bool is_out_of_memory() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const Error& error) {
    return error.status() == Status::out_of_memory;
  } catch (...) {
    return false;
  }
}

Refusal refused(int status, std::string_view message) noexcept {
  try {
    return {status, std::string(message)};
  } catch (...) {
    return no_memory();
  }
}

}  // namespace trl::serve
