// libtrl for C++11 and later: the handles of trl.h as classes, its errors as exceptions. Apache-2.0.
//
// - A function does as the function of trl.h that it calls. Keys, defaults and messages are the library's.
// - A class owns its handle, is moved and not copied, and may be destroyed in any order. One that was
//   moved from is empty, and counts as none where one may be left out. get() gives the handle to
//   functions of trl.h.
// - Functions throw Error. Texts that they return are copies; JSON is text.
// - A function of the host is any callable, taken by value as the standard algorithms take one
//   (std::ref keeps it outside). It returns an integer, a truth value or nothing. If it throws, the call
//   ends and throws the same; until then no other function of the host runs in that call.
// - Constants are those of cpp/constants.hpp (Status, EventKind ...), all std::int32_t. Tolerate others:
//   a status below 0 that has no name is like Status::internal.
#ifndef TRL_TRL_HPP
#define TRL_TRL_HPP

#include "cpp/train.hpp"

#endif  // TRL_TRL_HPP
