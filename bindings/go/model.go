package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"unsafe"
)

// Convert converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory.
func Convert(runtime *Runtime, path, target string, options Options) error {
	var call call
	from, to, config := call.text(path), call.text(target), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_convert(runtime.pointer(), from, to, config, e) },
		runtime.base())
	return err
}

// Model is a Hugging Face directory or a GGUF file, by OpenModel, or the model that a trainer trains, by Trainer.Model.
type Model struct{ *object }

func (m *Model) pointer() *C.trl_model { return (*C.trl_model)(m.raw()) }

// OpenModel opens a model.
func OpenModel(runtime *Runtime, path string, options Options) (*Model, error) {
	call := new(call)
	file, config := call.text(path), call.options(options)
	return call.model(runtime.base(), func(out **C.trl_model, e errorOut) C.trl_status {
		return C.trl_model_open(runtime.pointer(), file, config, out, e)
	})
}

// Model makes a handle of the model that this trainer trains: every step is seen in it at once. Options of the run choose
// its adapter, and Trainer.Save saves it.
func (t *Trainer) Model() (*Model, error) {
	return new(call).model(t.object, func(out **C.trl_model, e errorOut) C.trl_status {
		return C.trl_model_from_trainer(t.pointer(), out, e)
	})
}

func (c *call) model(parent *object, open func(out **C.trl_model, e errorOut) C.trl_status) (*Model, error) {
	made := &Model{new(object)}
	err := c.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return open((**C.trl_model)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_model_destroy((*C.trl_model)(pointer)) }, parent)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Describe returns the number of parameters, and the model's config.json.
func (m *Model) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_model_describe(m.pointer(), out, e) },
		m.object)
}

// AddAdapter adds a saved LoRA adapter, which is not used yet.
func (m *Model) AddAdapter(name, path string) error {
	var call call
	adapter, folder := call.text(name), call.text(path)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_add_adapter(m.pointer(), adapter, folder, e) }, m.object)
	return err
}

// RemoveAdapter removes an adapter.
func (m *Model) RemoveAdapter(name string) error {
	var call call
	adapter := call.text(name)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_remove_adapter(m.pointer(), adapter, e) }, m.object)
	return err
}

// UseAdapter chooses the adapter to compute with; "": only the model.
func (m *Model) UseAdapter(name string) error {
	var call call
	adapter := call.optional(name)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_use_adapter(m.pointer(), adapter, e) }, m.object)
	return err
}

// MergeAdapter merges an adapter into the weights; "" undoes it.
func (m *Model) MergeAdapter(name string) error {
	var call call
	adapter := call.optional(name)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_merge_adapter(m.pointer(), adapter, e) }, m.object)
	return err
}

// Save saves the model, or its adapter (save.kind).
func (m *Model) Save(path string, options Options) error {
	var call call
	folder, config := call.text(path), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_model_save(m.pointer(), folder, config, e) }, m.object)
	return err
}

// texts copies texts that may hold NUL; NULL if there are none.
func (c *call) payloads(texts []string) (**C.char, *C.size_t) {
	if len(texts) == 0 {
		return nil, nil
	}
	data, sizes := make([]*C.char, len(texts)), make([]C.size_t, len(texts))
	for i, text := range texts {
		data[i], sizes[i] = C.CString(text), C.size_t(len(text))
		c.texts = append(c.texts, unsafe.Pointer(data[i]))
	}
	return &data[0], &sizes[0]
}

// Score returns the scores that a reward model gives to texts.
func (m *Model) Score(texts []string, form TextForm, options Options) ([]float32, error) {
	var call call
	config := call.options(options)
	data, sizes := call.payloads(texts)
	scores := make([]float32, len(texts)+1) // one more, so that there is an address
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trl_model_score(m.pointer(), data, sizes, C.size_t(len(texts)), C.int32_t(form), config,
			(*C.float)(unsafe.Pointer(&scores[0])), e)
	}, m.object)
	if err != nil {
		return nil, err
	}
	return scores[:len(texts)], nil
}
