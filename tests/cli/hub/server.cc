// A hub on this machine, for tests: usage: trl_hub_server ROOT PORTS LOG. Serves the repositories below ROOT
// ("models/owner/name/REVISION/files", "datasets/..." likewise) on 127.0.0.1 as huggingface.co does: the API,
// the addresses of files with redirects to a second port for the large ones, ranges, checksums. Writes its
// two ports into PORTS, with a third one that takes connections and never answers, and a line for each
// request into LOG: which port, method, path, Range, Authorization. What goes wrong is said by files in
// ROOT/faults, each used up once (hub_test.sh says which).
#include <httplib.h>
#include <sha1.h>
#include <sha2.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using httplib::Request, httplib::Response;
using Json = nlohmann::json;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string hex(const uint8_t* bytes, size_t size) {
  static const char* const kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

std::string sha1(const std::string& text) {
  SHA1_CTX context;
  uint8_t sum[SHA1_DIGEST_LENGTH];
  SHA1Init(&context);
  SHA1Update(&context, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  SHA1Final(sum, &context);
  return hex(sum, sizeof sum);
}

std::string sha256(const std::string& text) {
  SHA2_CTX context;
  uint8_t sum[SHA256_DIGEST_LENGTH];
  SHA256Init(&context);
  SHA256Update(&context, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  SHA256Final(sum, &context);
  return hex(sum, sizeof sum);
}

std::string blob_id(const std::string& text) {
  return sha1("blob " + std::to_string(text.size()) + std::string(1, '\0') + text);
}

bool is_large(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf") || path.ends_with(".bin");
}

class Hub {
 public:
  Hub(fs::path root, fs::path log) : root_(std::move(root)), log_(std::move(log)) {
    hub_.set_keep_alive_max_count(100);
    hub_.Get("/api/(models|datasets)/([^/]+/[^/]+)/revision/(.+)",
             [this](const Request& q, Response& r) { revision(q, r); });
    hub_.Get("/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)",
             [this](const Request& q, Response& r) { tree(q, r); });
    hub_.Get("/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)",
             [this](const Request& q, Response& r) { file("datasets", q, r); });
    hub_.Get("/([^/]+/[^/]+)/resolve/([^/]+)/(.+)",
             [this](const Request& q, Response& r) { file("models", q, r); });
    cdn_.Get("/bytes/(.+)", [this](const Request& q, Response& r) { bytes(q, r); });
    // Written down before the answer is sent: the client that has it finds its request in the log.
    hub_.set_post_routing_handler([this](const Request& q, const Response& r) { record("hub", q, r); });
    cdn_.set_post_routing_handler([this](const Request& q, const Response& r) { record("cdn", q, r); });
    hub_port_ = hub_.bind_to_any_port("127.0.0.1");
    cdn_port_ = cdn_.bind_to_any_port("127.0.0.1");
    silent_port_ = silent_.bind_to_any_port("127.0.0.1");
  }

  void serve(const fs::path& ports) {
    std::ofstream(ports.string() + ".part") << hub_port_ << " " << cdn_port_ << " " << silent_port_ << "\n";
    fs::rename(ports.string() + ".part", ports);
    std::thread other([this] { cdn_.listen_after_bind(); });
    hub_.listen_after_bind();
    other.join();
  }

 private:
  // The text of the fault of that name, which is used up; nothing: there is none.
  std::optional<std::string> fault(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const fs::path path = root_ / "faults" / name;
    if (!fs::exists(path)) return {};
    std::string text = contents(path);
    const size_t line = text.find('\n');
    const std::string rest = line == std::string::npos ? "" : text.substr(line + 1);
    if (rest.empty()) {
      fs::remove(path);
    } else {
      std::ofstream(path) << rest;
    }
    return text.substr(0, line);
  }

  void record(const char* port, const Request& q, const Response& r) {
    const std::lock_guard lock(mutex_);
    std::ofstream(log_, std::ios::app) << port << " " << q.method << " " << q.path << " status=" << r.status
                                       << " range=" << q.get_header_value("Range")
                                       << " authorization=" << q.get_header_value("Authorization") << "\n";
  }

  static void refuse(Response& r, int status, const char* code, const char* message) {
    r.status = status;
    if (*code != '\0') r.set_header("X-Error-Code", code);
    r.set_header("X-Error-Message", message);
    r.set_content("{\"error\": \"" + std::string(message) + "\"}", "application/json");
  }

  // Whether the repository may be seen; otherwise r says why not. A file "private" or "gated" beside its
  // revisions holds the token that may.
  bool admits(const fs::path& repo, const Request& q, Response& r) {
    if (const auto wait = fault("429")) {
      refuse(r, 429, "", "Too many requests");
      r.set_header("Retry-After", *wait);
      return false;
    }
    if (fault("503")) return refuse(r, 503, "", "Down"), false;
    const std::string given = q.get_header_value("Authorization");
    if (!fs::is_directory(repo)) {
      given.empty() ? refuse(r, 401, "", "Invalid username or password.")
                    : refuse(r, 404, "RepoNotFound", "Repository not found");
      return false;
    }
    if (given == "Bearer unknown")
      return refuse(r, 401, "", "Invalid credentials in Authorization header"), false;
    if (fs::exists(repo / "private") && given != "Bearer " + contents(repo / "private")) {
      given.empty() ? refuse(r, 401, "", "Invalid username or password.")
                    : refuse(r, 404, "RepoNotFound", "Repository not found");
      return false;
    }
    if (fs::exists(repo / "gated") && given != "Bearer " + contents(repo / "gated")) {
      refuse(r, given.empty() ? 401 : 403, "GatedRepo", "Access to this model is restricted");
      return false;
    }
    return true;
  }

  // A commit's hash is made of the name of its revision and the files in it.
  static std::string commit_of(const fs::path& folder) {
    std::string all = folder.filename();
    for (const fs::path& path : files_of(folder)) all += path.string() + blob_id(contents(folder / path));
    return sha1(all);
  }

  static std::vector<fs::path> files_of(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder));
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // The folder of a revision or of a commit; empty: there is none.
  static fs::path folder_of(const fs::path& repo, const std::string& revision) {
    for (const auto& entry : fs::directory_iterator(repo)) {
      if (entry.is_directory() &&
          (entry.path().filename() == revision || commit_of(entry.path()) == revision))
        return entry.path();
    }
    return {};
  }

  void revision(const Request& q, Response& r) {
    const fs::path repo = root_ / q.matches[1].str() / q.matches[2].str();
    if (!admits(repo, q, r)) return;
    const fs::path folder = folder_of(repo, q.matches[3]);
    if (folder.empty()) return refuse(r, 404, "RevisionNotFound", "Invalid rev id");
    Json siblings = Json::array();
    for (const fs::path& path : files_of(folder)) siblings.push_back({{"rfilename", path.string()}});
    r.set_content(Json{{"id", q.matches[2].str()}, {"sha", commit_of(folder)}, {"siblings", siblings}}.dump(),
                  "application/json");
  }

  void tree(const Request& q, Response& r) {
    const fs::path repo = root_ / q.matches[1].str() / q.matches[2].str();
    if (!admits(repo, q, r)) return;
    const fs::path folder = folder_of(repo, q.matches[3]);
    if (folder.empty()) return refuse(r, 404, "RevisionNotFound", "Invalid rev id");
    constexpr size_t kPage = 3;
    const std::vector<fs::path> files = files_of(folder);
    const size_t from = q.has_param("cursor") ? std::stoul(q.get_param_value("cursor")) : 0;
    Json page = Json::array();
    for (size_t i = from; i < std::min(files.size(), from + kPage); ++i) {
      const std::string text = contents(folder / files[i]);
      Json entry = {
          {"type", "file"}, {"path", files[i].string()}, {"size", text.size()}, {"oid", blob_id(text)}};
      if (is_large(files[i]))
        entry["lfs"] = {{"oid", sha256(text)}, {"size", text.size()}, {"pointerSize", 134}};
      page.push_back(entry);
    }
    if (from + kPage < files.size())
      r.set_header("Link", "<http://127.0.0.1:" + std::to_string(hub_port_) + q.path +
                               "?recursive=True&expand=False&cursor=" + std::to_string(from + kPage) +
                               ">; rel=\"next\"");
    r.set_content(page.dump(), "application/json");
  }

  void file(const std::string& type, const Request& q, Response& r) {
    const fs::path repo = root_ / type / q.matches[1].str();
    if (!admits(repo, q, r)) return;
    const fs::path folder = folder_of(repo, q.matches[2]);
    if (folder.empty()) return refuse(r, 404, "RevisionNotFound", "Invalid rev id");
    const std::string path = q.matches[3], text = contents(folder / path);
    r.set_header("X-Repo-Commit", commit_of(folder));
    if (!fs::is_regular_file(folder / path)) return refuse(r, 404, "EntryNotFound", "Entry not found");
    if (is_large(path)) {
      r.set_header("X-Linked-Etag", "\"" + sha256(text) + "\"");
      r.set_header("X-Linked-Size", std::to_string(text.size()));
      r.set_redirect("http://127.0.0.1:" + std::to_string(cdn_port_) + "/bytes/" +
                     (folder / path).lexically_relative(root_).string());
      return;
    }
    if (path == "moved.json" && !q.has_param("again")) return r.set_redirect(q.path + "?again=1", 307);
    r.set_header("ETag", "\"" + blob_id(text) + "\"");
    send(q, path, text, r);
  }

  void bytes(const Request& q, Response& r) {
    const std::string path = q.matches[1];
    if (!q.get_header_value("Authorization").empty())
      return refuse(r, 400, "", "A token came to another host");
    r.set_header("ETag", "\"of-the-cdn\"");
    send(q, fs::path(path).filename(), contents(root_ / path), r);
  }

  // Whole, or what a Range asks for; cut after so many bytes, or with a byte changed, where a fault says so.
  void send(const Request& q, const std::string& name, std::string text, Response& r) {
    const bool sent = q.method == "GET";
    if (sent && fault("wrong-" + name) && !text.empty()) text[text.size() / 2] ^= 1;
    const std::optional<std::string> cut = sent ? fault("cut-" + name) : std::nullopt;
    const size_t end = cut ? std::stoul(*cut) : text.size();
    auto shared = std::make_shared<std::string>(std::move(text));
    r.set_content_provider(shared->size(), "application/octet-stream",
                           [shared, end](size_t offset, size_t length, httplib::DataSink& sink) {
                             if (offset >= end) return false;
                             const size_t count = std::min({length, end - offset, size_t{4096}});
                             return sink.write(shared->data() + offset, count);
                           });
  }

  const fs::path root_, log_;
  std::mutex mutex_;
  httplib::Server hub_, cdn_, silent_;
  int hub_port_ = 0, cdn_port_ = 0, silent_port_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Hub(argv[1], argv[3]).serve(argv[2]);
  return 0;
}
