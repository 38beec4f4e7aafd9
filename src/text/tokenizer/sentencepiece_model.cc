#include "text/tokenizer/sentencepiece_model.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "text/tokenizer/sentencepiece_file.h"

namespace trl::text {

namespace {
using sentencepiece::Module;
using sentencepiece::TextSink;

void append(void* to, const char* text, size_t size) { static_cast<std::string*>(to)->append(text, size); }
TextSink sink(std::string& text) { return {&text, append}; }

// Returns the module's path: next to libtrl.so in the folder trl, next to the engine there, or in the lib of
// a build's programs.
std::string module_path() {
  Dl_info info{};
  std::string own;
  if (::dladdr(reinterpret_cast<void*>(&module_path), &info) != 0 && info.dli_fname != nullptr)
    own = info.dli_fname;
  const size_t slash = own.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : own.substr(0, slash);
  for (const char* place : {"trl", ".", "../lib/trl"}) {
    const std::string path = base::join_path(base::join_path(folder, place), sentencepiece::kModuleFile);
    if (base::file_exists(path)) return path;
  }
  return {};
}

// Sanitizers abort a process that uses RTLD_DEEPBIND.
bool is_sanitized() {
  return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
}

// The library's names and those of the Protocol Buffers in it stay within the module, except under a
// sanitizer; there no other Protocol Buffers may be loaded.
const Module& open_module(const std::string& model) {
  const std::string path = module_path();
  if (path.empty())
    fail(Status::unsupported,
         "{}: SentencePiece models are read by {}, which this build lacks: it is made where "
         "libsentencepiece-dev "
         "is installed; a tokenizer.json next to it is always read",
         model, sentencepiece::kModuleFile);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | (is_sanitized() ? 0 : RTLD_DEEPBIND));
  if (library == nullptr) fail(Status::unsupported, "{} cannot be opened: {}", path, ::dlerror());
  const auto entry = reinterpret_cast<sentencepiece::Entry>(::dlsym(library, sentencepiece::kEntryName));
  const Module* module = entry != nullptr ? entry() : nullptr;
  if (module == nullptr || module->version != sentencepiece::kModuleVersion)
    fail(Status::unsupported, "{}: it belongs to another build", path);
  return *module;
}

const Module& find_module(const std::string& model) {
  static const Module& module = open_module(model);  // tried again after a failure
  return module;
}
}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view bytes, std::string path)
    : module_(&find_module(path)), path_(std::move(path)) {
  const std::string checked = read_sentencepiece_file(bytes, path_);
  std::string error;
  const TextSink reason = sink(error);
  model_.reset(module_->open(checked.data(), checked.size(), &reason), module_->close);
  if (!model_) fail(Status::format, "{}: not a SentencePiece model: {}", path_, base::one_line(error));
}

std::string SentencePieceModel::piece(int32_t id) const {
  std::string text;
  const TextSink to = sink(text);
  module_->piece(model_.get(), id, &to);
  return text;
}

int32_t SentencePieceModel::find(std::string_view text) const {
  if (text.empty()) return -1;
  const int32_t id = module_->find(model_.get(), text.data(), text.size());
  return id >= 0 && id < size() && piece(id) == text ? id : -1;
}

void SentencePieceModel::encode(std::string_view text, uint32_t origin, Tokens& out) const {
  struct Out {
    Tokens& tokens;
    uint32_t origin;
  } to{out, origin};
  const sentencepiece::TokenSink tokens = {&to, [](void* where, int32_t id, uint32_t begin, uint32_t end) {
                                             auto& o = *static_cast<Out*>(where);
                                             o.tokens.ids.push_back(id);
                                             if (o.tokens.tracked)
                                               o.tokens.spans.push_back({o.origin + begin, o.origin + end});
                                           }};
  std::string error;
  const TextSink reason = sink(error);
  if (!module_->encode(model_.get(), text.data(), text.size(), &tokens, &reason))
    fail(Status::format, "{}: a text of {} bytes cannot be encoded: {}", path_, text.size(), error);
}

std::string SentencePieceModel::decode(std::span<const int32_t> ids) const {
  std::string text, error;
  const TextSink to = sink(text);
  const TextSink reason = sink(error);
  if (!module_->decode(model_.get(), ids.data(), ids.size(), &to, &reason))
    fail(Status::format, "{}: {} ids cannot be decoded: {}", path_, ids.size(), error);
  return text;
}

}  // namespace trl::text
