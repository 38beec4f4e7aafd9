#include "sentencepiece/module.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace trl::sentencepiece;
using Processor = ::sentencepiece::SentencePieceProcessor;

const Processor& of(const void* model) { return *static_cast<const Processor*>(model); }

void put(const TextSink* sink, const std::string& text) { sink->put(sink->to, text.data(), text.size()); }

// Lets no exception leave the module, which has its own C++ runtime's names.
template <typename Body>
bool guarded(const TextSink* error, const Body& body) {
  try {
    const ::sentencepiece::util::Status status = body();
    if (!status.ok()) put(error, status.ToString());
    return status.ok();
  } catch (const std::exception& exception) {
    put(error, exception.what());
  } catch (...) {
    put(error, "unknown exception");
  }
  return false;
}

void* open(const char* bytes, size_t size, const TextSink* error) {
  auto processor = std::make_unique<Processor>();
  return guarded(error,
                 [&] {
                   return processor->LoadFromSerializedProto({bytes, size});
                 })
             ? processor.release()
             : nullptr;
}
void close(void* model) { delete static_cast<Processor*>(model); }
int32_t size(const void* model) { return of(model).GetPieceSize(); }

Kind kind(const void* model, int32_t id) {
  const Processor& processor = of(model);
  if (processor.IsUnknown(id)) return Kind::unknown;
  if (processor.IsControl(id)) return Kind::control;
  if (processor.IsUnused(id)) return Kind::unused;
  return processor.IsByte(id) ? Kind::byte : Kind::normal;
}
void piece(const void* model, int32_t id, const TextSink* sink) { put(sink, of(model).IdToPiece(id)); }
int32_t find(const void* model, const char* text, size_t size) { return of(model).PieceToId({text, size}); }

bool encode(const void* model, const char* text, size_t size, const TokenSink* tokens,
            const TextSink* error) {
  return guarded(error, [&] {
    const auto encoded = of(model).EncodeAsImmutableProto({text, size});
    for (const auto& token : encoded.pieces())
      tokens->put(tokens->to, static_cast<int32_t>(token.id()), token.begin(), token.end());
    return ::sentencepiece::util::Status();
  });
}

bool decode(const void* model, const int32_t* ids, size_t count, const TextSink* sink,
            const TextSink* error) {
  return guarded(error, [&] {
    std::string text;
    const auto status = of(model).Decode(std::vector<int>(ids, ids + count), &text);
    if (status.ok()) put(sink, text);
    return status;
  });
}

constexpr Module kModule = {kModuleVersion, open, close, size, kind, piece, find, encode, decode};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* trl_sentencepiece_module() {
  return &kModule;
}
