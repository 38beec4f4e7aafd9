// Finds and opens libtrl_engine.so.
#pragma once
#include <string>

#include "engine/engine.h"

namespace trl::engine {

// trl/libtrl_engine.so in the directory of the library (or program) that holds this code.
std::string default_engine_path();

// Opens the engine; it is never closed. The owner of the process's state (capi/) calls this once and keeps
// the result; a call after a failure tries again. Throws Error: not_found (no such file), unsupported
// (another libtorch is mapped, or a library that the engine needs is missing). host is lent for the rest of
// the process.
Engine& open_engine(Host& host, const std::string& path = default_engine_path());

// Ends the threads of OpenBLAS, which libtorch loads and which starts them on loading; with them a process
// would not end with the last thread of its host. OpenBLAS itself does this before every fork, and restarts
// them when it needs them (tensor/threads/openmp_threads.h). Does nothing if the host had OpenBLAS before the
// engine: the threads are the host's then; nor if another copy of this library computes with it.
void end_blas_threads() noexcept;

}  // namespace trl::engine
