package trl

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"io"
	"unsafe"
)

// Token is a new token of a completion.
type Token struct {
	ID             int32
	Text           string  // "" while a character is unfinished
	LogProbability float64 // NaN without generate.logprobs
}

// TokenFunc gets each new token of a completion. ErrStop ends that completion.
type TokenFunc func(completion int, token Token) error

// Completion is a completion as it was when it was taken.
type Completion struct {
	Text         string
	Tokens       []int32
	FinishReason string          // "": it goes on
	JSON         json.RawMessage // the above, the error of an aborted one, and log-probabilities (generate.logprobs)
}

// Generator completes prompts. It is made by a Model.
type Generator struct{ *object }

func (g *Generator) pointer() *C.trl_generator { return (*C.trl_generator)(g.raw()) }

// Generator makes a generator with this model, and with its own tokenizer (nil) or another one. One of a trainer's model
// sees every step at once, and takes turns with them.
func (m *Model) Generator(tokenizer *Tokenizer) (*Generator, error) {
	made := &Generator{new(object)}
	err := new(call).create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_generator_create(m.pointer(), tokenizer.pointer(), (**C.trl_generator)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_generator_destroy((*C.trl_generator)(pointer)) }, m.object, tokenizer.base())
	if err != nil {
		return nil, err
	}
	return made, nil
}

// take calls a function that gives completions, copies and frees them.
func (c *call) take(give func(out **C.trl_completions, e errorOut) C.trl_status, objects ...*object) ([]Completion, error) {
	var given *C.trl_completions
	defer func() { C.trl_completions_destroy(given) }()
	if _, err := c.do(func(e errorOut) C.trl_status { return give(&given, e) }, objects...); err != nil {
		return nil, err
	}
	var found []Completion
	for {
		var size, count, length C.size_t
		index := C.size_t(len(found))
		text := C.trl_completions_text(given, index, &size)
		if text == nil {
			return found, nil
		}
		tokens := make([]int32, 0)
		if ids := C.trl_completions_tokens(given, index, &count); ids != nil {
			tokens = append(tokens, unsafe.Slice((*int32)(unsafe.Pointer(ids)), int(count))...)
		}
		details := C.trl_completions_json(given, index, &length)
		found = append(found, Completion{textAt(text, size), tokens,
			C.GoString(C.trl_completions_finish_reason(given, index)), json.RawMessage(textAt(details, length))})
	}
}

// hostOfTokens is the function of a call that generates. A context needs one even if the host has none.
func hostOfTokens(ctx context.Context, onToken TokenFunc) any {
	if onToken == nil && ctx.Done() == nil {
		return nil
	}
	if onToken == nil {
		onToken = func(int, Token) error { return nil }
	}
	return onToken
}

// Generate completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j. onToken
// may be nil. A context that is done ends it at the next token.
func (g *Generator) Generate(ctx context.Context, prompts []string, options Options, onToken TokenFunc) ([]Completion, error) {
	if err := cancelledBefore(ctx); err != nil {
		return nil, err
	}
	call := &call{context: ctx, host: hostOfTokens(ctx, onToken)}
	config := call.options(options)
	data, sizes := call.payloads(prompts)
	return call.take(func(out **C.trl_completions, e errorOut) C.trl_status {
		return C.trlgo_generator_generate(g.pointer(), data, sizes, C.size_t(len(prompts)), config, call.user(), out, e)
	}, g.object)
}

// Add adds a request: a prompt that Step completes. It returns the number of its first completion.
func (g *Generator) Add(prompt string, options Options) (int, error) {
	data, size := chars(prompt)
	return g.add(data, size, nil, 0, options)
}

// AddTokens adds a request whose prompt is token ids.
func (g *Generator) AddTokens(prompt []int32, options Options) (int, error) {
	ids, count := numbers(prompt)
	return g.add(nil, 0, ids, count, options)
}

func (g *Generator) add(text *C.char, size C.size_t, ids *C.int32_t, count C.size_t, options Options) (int, error) {
	var call call
	var first C.size_t
	config := call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_generator_add(g.pointer(), text, size, ids, count, config, &first, e)
	}, g.object)
	return int(first), err
}

// Step computes a token of each completion that runs; io.EOF: there was nothing to do. onToken may be nil. An error that it
// returns and a panic end the completion of this token alone, and come out when the step is done.
func (g *Generator) Step(onToken TokenFunc) error {
	var step, told call // told: how onToken failed first
	if onToken != nil {
		step.host = TokenFunc(func(completion int, token Token) error {
			number := told.protect(func() (int64, error) {
				number, err := stops(onToken(completion, token), 1)
				return int64(number), err
			})
			if number != 0 {
				return ErrStop
			}
			return nil
		})
	}
	status, err := step.do(func(e errorOut) C.trl_status { return C.trlgo_generator_step(g.pointer(), step.user(), e) }, g.object)
	switch {
	case told.failed:
		return told.raise(nil)
	case err == nil && status == End:
		return io.EOF
	}
	return err
}

// Extend continues a completion that was added with generate.keep, after more text.
func (g *Generator) Extend(completion int, prompt string, options Options) error {
	data, size := chars(prompt)
	return g.extend(completion, data, size, nil, 0, options)
}

// ExtendTokens continues a completion that was added with generate.keep, after more token ids.
func (g *Generator) ExtendTokens(completion int, prompt []int32, options Options) error {
	ids, count := numbers(prompt)
	return g.extend(completion, nil, 0, ids, count, options)
}

func (g *Generator) extend(completion int, text *C.char, size C.size_t, ids *C.int32_t, count C.size_t, options Options) error {
	var call call
	config := call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_generator_extend(g.pointer(), C.size_t(completion), text, size, ids, count, config, e)
	}, g.object)
	return err
}

// Cancel ends completions; their tokens so far can still be taken.
func (g *Generator) Cancel(first, count int) error {
	_, err := new(call).do(func(e errorOut) C.trl_status {
		return C.trl_generator_cancel(g.pointer(), C.size_t(first), C.size_t(count), e)
	}, g.object)
	return err
}

// Take takes completions as they are.
func (g *Generator) Take(first, count int) ([]Completion, error) {
	return new(call).take(func(out **C.trl_completions, e errorOut) C.trl_status {
		return C.trl_generator_take(g.pointer(), C.size_t(first), C.size_t(count), out, e)
	}, g.object)
}

// ReleaseMemory gives the memory of keys and values back until completions go on.
func (g *Generator) ReleaseMemory() error {
	_, err := new(call).do(func(e errorOut) C.trl_status { return C.trl_generator_release_memory(g.pointer(), e) }, g.object)
	return err
}

// Stream is one completion as it is computed: tokens by Next, or its text by Read, so that io.Copy writes it. Other
// requests of the generator go on meanwhile. Close ends it before its end.
type Stream struct {
	context   context.Context
	generator *Generator
	number    int
	tokens    []Token
	left      string // of a text that Read has begun
	over      bool
	taken     bool
	last      Completion
}

// Stream begins a completion of one prompt.
func (g *Generator) Stream(ctx context.Context, prompt string, options Options) (*Stream, error) {
	if err := cancelledBefore(ctx); err != nil {
		return nil, err
	}
	number, err := g.Add(prompt, options)
	if err != nil {
		return nil, err
	}
	return &Stream{context: ctx, generator: g, number: number}, nil
}

// Next returns the next token; io.EOF at the end.
func (s *Stream) Next() (Token, error) {
	for len(s.tokens) == 0 {
		if s.over {
			return Token{}, io.EOF
		}
		if err := cancelledBefore(s.context); err != nil {
			return Token{}, err
		}
		err := s.generator.Step(func(completion int, token Token) error {
			if completion == s.number {
				s.tokens = append(s.tokens, token)
			}
			return nil
		})
		if err == io.EOF {
			err = s.Close()
		}
		if err != nil {
			return Token{}, err
		}
	}
	token := s.tokens[0]
	s.tokens = s.tokens[1:]
	return token, nil
}

// Read reads the text of the completion.
func (s *Stream) Read(into []byte) (int, error) {
	for s.left == "" {
		token, err := s.Next()
		if err != nil {
			return 0, err
		}
		s.left = token.Text
	}
	count := copy(into, s.left)
	s.left = s.left[count:]
	return count, nil
}

// Close ends the completion. It can be called again.
func (s *Stream) Close() error {
	s.over = true
	if s.taken {
		return nil
	}
	s.taken = true
	if err := s.generator.Cancel(s.number, 1); err != nil {
		return err
	}
	last, err := s.generator.Take(s.number, 1)
	if err == nil {
		s.last = last[0]
	}
	return err
}

// Completion returns the whole completion, once the stream has ended or was closed.
func (s *Stream) Completion() Completion { return s.last }
