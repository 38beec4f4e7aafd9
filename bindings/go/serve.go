package trl

/*
#cgo LDFLAGS: -ldl
#include "serve_abi.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unsafe"
)

// Server serves models over HTTP, on threads of its own, by the protocols of OpenAI, vLLM and TRL. It is made by NewServer,
// which loads the server's library. Close stops it without time for the requests that run; Stop gives them some.
type Server struct{ *object }

func (s *Server) pointer() *C.trl_server { return (*C.trl_server)(s.raw()) }

// NewServer makes a server that does not run yet.
func NewServer(runtime *Runtime, options Options) (*Server, error) {
	if failed := C.trlgo_serve_open(); failed != nil {
		return nil, &Error{Status: EUnsupported, Message: C.GoString(failed)}
	}
	made, call := &Server{new(object)}, new(call)
	config := call.options(options)
	err := call.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_server_create(runtime.pointer(), config, (**C.trl_server)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_server_destroy((*C.trl_server)(pointer)) }, runtime.base())
	if err != nil {
		return nil, err
	}
	made.handle.interrupt = cancelServer
	return made, nil
}

func cancelServer(pointer unsafe.Pointer) { C.trl_server_cancel((*C.trl_server)(pointer)) }

// AddModel adds a model, which requests name, with its own tokenizer (nil) or another one.
func (s *Server) AddModel(name string, model *Model, tokenizer *Tokenizer, options Options) error {
	var call call
	text, config := call.text(name), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_server_add_model(s.pointer(), text, model.pointer(), tokenizer.pointer(), config, e)
	}, s.object, model.object, tokenizer.base())
	if err == nil {
		s.adopt(model.object, tokenizer.base())
	}
	return err
}

// AddGenerator adds a generator, which is the server's from Start to the end of Stop.
func (s *Server) AddGenerator(name string, generator *Generator, tokenizer *Tokenizer, options Options) error {
	var call call
	text, config := call.text(name), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_server_add_generator(s.pointer(), text, generator.pointer(), tokenizer.pointer(), config, e)
	}, s.object, generator.object, tokenizer.base())
	if err == nil {
		s.adopt(generator.object, tokenizer.base())
	}
	return err
}

// AddTrainer adds the model of a trainer: requests are answered with what it trains, with serve_share while it trains.
func (s *Server) AddTrainer(name string, trainer *Trainer, options Options) error {
	var call call
	text, config := call.text(name), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_server_add_trainer(s.pointer(), text, trainer.pointer(), config, e)
	}, s.object, trainer.object)
	if err == nil {
		s.adopt(trainer.object)
	}
	return err
}

// Start listens, and starts the threads of the server.
func (s *Server) Start() error {
	_, err := new(call).do(func(e errorOut) C.trl_status { return C.trl_server_start(s.pointer(), e) }, s.object)
	return err
}

// Stop stops it when the requests that run have ended, at most after this time; below 0: serve.drain_timeout.
func (s *Server) Stop(drain time.Duration) error {
	_, err := new(call).do(func(e errorOut) C.trl_status {
		return C.trl_server_stop(s.pointer(), C.double(drain.Seconds()), e)
	}, s.object)
	return err
}

// Wait waits until it has stopped. Its error is the context's, which leaves the server running, or that of a thread of the
// server. Log lines come meanwhile.
func (s *Server) Wait(ctx context.Context) error {
	for {
		if err := cancelledBefore(ctx); err != nil {
			return err
		}
		running, err := s.waits(100 * time.Millisecond) // in which a context is seen
		if err != nil || !running {
			return err
		}
	}
}

// Running tells whether it runs; its error is that of a thread of the server.
func (s *Server) Running() (bool, error) { return s.waits(0) }

func (s *Server) waits(most time.Duration) (running bool, err error) {
	status, err := new(call).do(func(e errorOut) C.trl_status {
		return C.trl_server_wait(s.pointer(), C.double(most.Seconds()), e)
	}, s.object)
	return status == Later, err
}

// Cancel asks it to stop, and returns at once; a second time: without time for requests. From any goroutine.
func (s *Server) Cancel() { s.signal(cancelServer) }

// Describe describes it as a JSON object: state, address, port, and the models with their adapters.
func (s *Server) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_server_describe(s.pointer(), out, e) },
		s.object)
}

// SetAdapter gives a model ("": the first one) an adapter of this name, or a new version of one, from a directory. Requests
// that run keep the version that they began with.
func (s *Server) SetAdapter(model, name, path string) error {
	call := new(call)
	return s.setAdapter(call, model, name, call.text(path))
}

// RemoveAdapter takes an adapter from a model ("": the first one).
func (s *Server) RemoveAdapter(model, name string) error {
	return s.setAdapter(new(call), model, name, nil)
}

func (s *Server) setAdapter(call *call, model, name string, path *C.char) error {
	of, text := call.optional(model), call.text(name)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_server_set_adapter(s.pointer(), of, text, path, e) }, s.object)
	return err
}

// Sleep puts a model ("": the first one) to sleep, as deep as level 1 or 2: requests are refused until WakeUp. mode says what
// becomes of those that run: "abort" ("" is the same), "wait" or "keep".
func (s *Server) Sleep(model string, level int, mode string) error {
	if int(int32(level)) != level {
		return &Error{Status: EInvalidArgument, Message: fmt.Sprintf("level is %d; give 1 or 2", level)}
	}
	var call call
	of, how := call.optional(model), call.optional(mode)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_server_sleep(s.pointer(), of, C.int32_t(level), how, e)
	}, s.object)
	return err
}

// WakeUp wakes a model. tags is what is asked for again, "weights" or "kv_cache", or "" for all.
func (s *Server) WakeUp(model, tags string) error {
	var call call
	of, what := call.optional(model), call.optional(tags)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_server_wake_up(s.pointer(), of, what, e) }, s.object)
	return err
}
