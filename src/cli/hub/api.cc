#include "cli/hub/resolve.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/hub/request.h"
#include "cli/json_text.h"

namespace trl::cli::hub {

namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int kMostRedirects = 10, kMostPages = 1000;

struct Answer {
  Reply reply;
  std::string body;
};

// Follows redirects only on the hub's own host: a repository may have another name now.
Answer ask(const Settings& settings, const Repo& repo, std::string url) {
  Retries retries;
  for (int redirects = 0; redirects <= kMostRedirects;) {
    Answer answer;
    Request request(settings, Request::Method::get, url, 0, [&](const Reply&, std::string_view bytes) {
      answer.body += bytes;
      return answer.body.size() <= kMostBytes;
    });
    const CURLcode code = curl_easy_perform(request.handle());
    answer.reply = request.reply();
    if (code == CURLE_OK && answer.reply.status == 200) return answer;
    if (code == CURLE_OK && answer.reply.is_redirect()) {
      url = request.location();
      if (origin_of(url) != origin_of(settings.endpoint))
        throw HubError(
            fmt::format("{}: {} leads to another host, {}", repo.id, request.url(), origin_of(url)));
      ++redirects;
      continue;
    }
    const bool passing = code == CURLE_OK ? is_passing(answer.reply.status) : is_passing(code);
    const double seconds = passing ? retries.next(answer.reply) : -1;
    if (seconds < 0) {
      if (code == CURLE_OK) refuse(settings, repo, "", answer.reply);
      throw HubError(
          fmt::format("{}: {} cannot be reached: {}", repo.id, settings.endpoint, request.why(code)));
    }
    if (answer.reply.status == 429) spdlog::warn("{}: the hub asks to wait {:.0f} s (429)", repo.id, seconds);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  throw HubError(fmt::format("{}: {} leads in circles", repo.id, settings.endpoint));
}

Json parsed(const Settings& settings, const Repo& repo, const std::string& body) {
  Json json = parse_text<Json>(body);
  if (json.is_discarded())
    throw HubError(
        fmt::format("{}: what {} answers is not JSON: it does not speak the hub's protocol (see HF_ENDPOINT)",
                    repo.id, settings.endpoint));
  return json;
}

std::string api(const Settings& settings, const Repo& repo) {
  return fmt::format("{}/api/{}s/{}", settings.endpoint, repo.type_name(), repo.id);
}

// Returns the URL of the next page, from the header Link: <URL>; rel="next".
std::string next_page(const Reply& reply) {
  const std::string link = reply.header("link");
  const size_t begin = link.find('<'), end = link.find('>');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  if (link.find("rel=\"next\"", end) == std::string::npos) return "";
  return link.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::string ask_commit(const Settings& settings, const Repo& repo) {
  if (is_commit(repo.revision)) return repo.revision;
  const std::string url = api(settings, repo) + "/revision/" + quoted(repo.revision, false);
  const Json info = parsed(settings, repo, ask(settings, repo, url).body);
  const std::string commit = info.is_object() && info.contains("sha") && info["sha"].is_string()
                                 ? info["sha"].get<std::string>()
                                 : "";
  if (!is_commit(commit))
    throw HubError(fmt::format("{}: {} does not say which commit '{}' is (see HF_ENDPOINT)", repo.id,
                               settings.endpoint, repo.revision));
  return commit;
}

Listing ask_listing(const Settings& settings, const Repo& repo, const std::string& commit) {
  Listing listing;
  std::string url = api(settings, repo) + "/tree/" + commit + "?recursive=True&expand=False";
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMostPages || origin_of(url) != origin_of(settings.endpoint))
      throw HubError(fmt::format("{}: the hub's list of files does not end", repo.id));
    const Answer answer = ask(settings, repo, url);
    add_page(listing, parsed(settings, repo, answer.body));
    url = next_page(answer.reply);
  }
  return listing;
}

}  // namespace trl::cli::hub
