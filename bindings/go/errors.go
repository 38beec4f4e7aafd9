package trl

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
)

// String returns the name that the library has for a status.
func (s Status) String() string { return C.GoString(C.trl_status_name(C.trl_status(s))) }

// Error returns the name of a status: a Status is an error, too, so that errors.Is(err, trl.ENotFound) asks for one, and
// a function of the host may return Later.
func (s Status) Error() string { return s.String() }

// Error is an error of a call. errors.Is compares it with a Status; errors.Is and errors.As also find the error that a
// function of the host returned and the error of a context.
type Error struct {
	Status       Status
	Message      string
	Key          string // the configuration key at fault, or ""
	Place        *Place // of the fault in what was read, or nil
	CallbackCode int32  // of ECallback: the number that a function of the host returned
	cause        error
}

// Place is a place in a file of rows, of options or of a model, or in what was given in place of one.
type Place struct {
	File   string // the path, or how messages name what is not a file
	Line   int64  // in a file of text, from 1; 0: not known
	Column int64  // in bytes, from 1; 0: not known
	Row    int64  // of the dataset, from 0; -1: none is at fault, or it is not known
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the function of the host, or of the context, that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// Is tells whether target is the error's status. A status below 0 that this version does not know is EInternal, too.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && (status == e.Status || status == EInternal && e.Status.unknown())
}

func (s Status) unknown() bool { return s < EInternal }

// ErrStop is returned by a function of the host that needs no more: a progress function ends the call with ECancelled, a
// batch function sees no more batches, a token function ends the completion.
var ErrStop = errors.New("trl: stop")

func errorOf(status Status, failed *C.trl_error) *Error {
	made := &Error{Status: status, Message: status.String()}
	if failed != nil {
		made.Status = Status(C.trl_error_code(failed))
		made.Message = C.GoString(C.trl_error_message(failed))
		made.Key = C.GoString(C.trl_error_key(failed))
		made.Place = placeOf(failed)
		made.CallbackCode = int32(C.trl_error_callback_code(failed))
	}
	return made
}

func placeOf(failed *C.trl_error) *Place {
	var file *C.char
	var line, column, row C.int64_t
	if C.trl_error_place(failed, &file, &line, &column, &row) == 0 {
		return nil
	}
	return &Place{C.GoString(file), int64(line), int64(column), int64(row)}
}

// raise repeats the panic of a host function, or returns the error of a call that a host function or the call's context has
// ended.
func (c *call) raise(failed *C.trl_error) error {
	if c.panicked {
		panic(c.value)
	}
	made := &Error{Status: ECallback, Message: c.failure.Error(), cause: c.failure}
	if c.context != nil && c.failure == c.context.Err() {
		made.Status = ECancelled
	}
	made.CallbackCode = int32(C.trl_error_callback_code(failed))
	return made
}

// cancelled adds the context's error to that of a call that it has cancelled.
func (c *call) cancelled(made *Error) *Error {
	if c.context != nil && made.Status == ECancelled {
		made.cause = c.context.Err()
	}
	return made
}

func cancelledBefore(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &Error{Status: ECancelled, Message: err.Error(), cause: err}
	}
	return nil
}

// wrongVersion is what every call fails with if the library does not suit this package.
var wrongVersion = suits(VersionNumber())

// suits compares the version of a library with that of the header that this package was built with: until 1.0 a minor
// version may break things.
func suits(have uint32) *Error {
	major, minor := int32(have>>16), int32(have>>8&255)
	if major == VersionMajor && (minor == VersionMinor || VersionMajor > 0) {
		return nil
	}
	return &Error{Status: EUnsupported, Message: fmt.Sprintf("the library is version %d.%d.%d, and this package is for %d.%d.%d",
		major, minor, have&255, VersionMajor, VersionMinor, VersionPatch)}
}
