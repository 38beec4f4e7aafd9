package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"runtime/cgo"
	"unsafe"
)

// LogFunc gets the log lines of a runtime. Within it, nothing of the library may be used.
type LogFunc func(level LogLevel, component, text string)

// ProgressFunc is told of calls that open, make or save something, every 50 ms; total is -1 if it is not known. ErrStop
// ends the call with ECancelled.
type ProgressFunc func(phase string, done, total int64) error

// ReadFunc reads a part of a file that the host gives: it fills the buffer from the offset on, and returns how many bytes it
// put there, fewer than there is room only at the end of the file. With a nil buffer it returns the size of the file. An
// error that is fs.ErrNotExist says that there is no such file.
type ReadFunc func(file string, offset int64, buffer []byte) (int64, error)

// WriteFunc takes what is saved: pieces of files in order, which are valid until it returns, and then whether the folder is
// complete (WriteDone) or to be dropped (WriteDropped), also after an error of this function. Others may come later.
type WriteFunc func(what WriteKind, file string, offset int64, data []byte) error

// mounted are the functions of a mount, and the runtime that they are mounted on.
type mounted struct {
	read  ReadFunc
	write WriteFunc
	on    *object
}

// Runtime has the threads, memory limit, log and progress of what is created with it. Wherever one is taken, nil is a
// quiet one with the defaults. It is made by NewRuntime.
type Runtime struct{ *object }

func (r *Runtime) base() *object {
	if r == nil {
		return nil
	}
	return r.object
}

func (r *Runtime) pointer() *C.trl_runtime { return (*C.trl_runtime)(r.base().raw()) }

// NewRuntime makes a runtime.
func NewRuntime(options Options) (*Runtime, error) {
	made, call := &Runtime{new(object)}, new(call)
	config := call.options(options)
	err := call.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_runtime_create(config, (**C.trl_runtime)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_runtime_destroy((*C.trl_runtime)(pointer)) })
	if err != nil {
		return nil, err
	}
	return made, nil
}

// register gives the library a function that the object keeps; nil: none.
func (o *object) register(function any, set func(host C.uintptr_t, e errorOut) C.trl_status) error {
	_, err := new(call).do(func(e errorOut) C.trl_status {
		if function == nil {
			return set(0, e)
		}
		return set(o.keep(function), e)
	}, o)
	return err
}

// SetLog sends log lines to a function; nil: to none.
func (r *Runtime) SetLog(function LogFunc) error {
	var host any
	if function != nil {
		host = function
	}
	return r.register(host, func(host C.uintptr_t, e errorOut) C.trl_status {
		return C.trlgo_runtime_set_log(r.pointer(), host, e)
	})
}

// SetProgress tells a function of calls that open, make or save something; nil: none.
func (r *Runtime) SetProgress(function ProgressFunc) error {
	var host any
	if function != nil {
		host = function
	}
	return r.register(host, func(host C.uintptr_t, e errorOut) C.trl_status {
		return C.trlgo_runtime_set_progress(r.pointer(), host, e)
	})
}

// Mount mounts files of the host: "host://NAME" and "host://NAME/FOLDER" are from now on folders that calls read and write
// by these functions, each of which may be nil. It lasts until Close, which the finalizer of a runtime with a mount does not
// call, and as long as what was made with the runtime.
func (r *Runtime) Mount(name string, read ReadFunc, write WriteFunc) error {
	var call call
	folder := call.text(name)
	_, err := call.do(func(e errorOut) C.trl_status {
		host := cgo.NewHandle(&slot{mounted: &mounted{read, write, r.object}})
		return C.trlgo_runtime_mount(r.pointer(), folder, C.uintptr_t(host), flag(read != nil), flag(write != nil), e)
	}, r.base())
	return err
}

// SetMemoryLimit sets the limit of the process for large buffers, in bytes; 0: none.
func (r *Runtime) SetMemoryLimit(limit int64) error {
	_, err := new(call).do(func(e errorOut) C.trl_status {
		return C.trl_runtime_set_memory_limit(r.pointer(), C.int64_t(limit), e)
	}, r.base())
	return err
}

// Memory returns the bytes that large buffers of a kind, or with "" all, hold now and held at most.
func (r *Runtime) Memory(kind string) (now, peak int64, err error) {
	var call call
	var held, most C.int64_t
	name := call.optional(kind)
	_, err = call.do(func(e errorOut) C.trl_status { return C.trl_runtime_memory(r.pointer(), name, &held, &most, e) }, r.base())
	return int64(held), int64(most), err
}

// Describe describes the runtime and the engine, which it opens, as a JSON object.
func (r *Runtime) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_runtime_describe(r.pointer(), out, e) },
		r.base())
}

// Cancel ends the calls that are in progress on this runtime with ECancelled, from any goroutine.
func (r *Runtime) Cancel() {
	r.signal(func(pointer unsafe.Pointer) { C.trl_runtime_cancel((*C.trl_runtime)(pointer)) })
}

// signal calls a function that needs no status, unless the object is closed.
func (o *object) signal(function func(unsafe.Pointer)) {
	if o.handle.acquire() {
		defer o.handle.release()
		function(o.handle.pointer)
	}
}

// CancelAll ends the calls that are in progress in the whole process.
func CancelAll() { C.trl_runtime_cancel(nil) }

// Shutdown ends the threads that the library keeps between calls; it starts them again when it needs them.
func Shutdown() error {
	_, err := new(call).do(func(e errorOut) C.trl_status { return C.trl_runtime_shutdown(e) })
	return err
}
