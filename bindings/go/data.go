package trl

/*
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"io"
	"unsafe"
)

// Row is a row: texts by column, and other values, which are written as JSON.
type Row = map[string]any

// Rows are rows that the host gives one by one, more than once.
type Rows interface {
	// Rewind starts over; it is called before the first row of each reading.
	Rewind() error
	// Next sets the columns of the next row; io.EOF: there is none.
	Next(record *Record) error
}

// SliceRows gives the rows of a slice.
func SliceRows(rows []Row) Rows { return &sliceRows{rows: rows} }

type sliceRows struct {
	rows []Row
	next int
}

func (s *sliceRows) Rewind() error {
	s.next = 0
	return nil
}

func (s *sliceRows) Next(record *Record) error {
	if s.next == len(s.rows) {
		return io.EOF
	}
	row := s.rows[s.next]
	s.next++
	for name, value := range row {
		if err := record.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Record takes the columns of one row, while the function that got it runs.
type Record struct{ pointer *C.trl_record }

// Set sets a column: a string to this text, an []int32 to this list of integers, any other value to its JSON.
func (r *Record) Set(name string, value any) error {
	var call call
	column := call.text(name)
	var set func(e errorOut) C.trl_status
	switch given := value.(type) {
	case string:
		data, size := chars(given)
		set = func(e errorOut) C.trl_status { return C.trl_record_set_text(r.pointer, column, data, size, e) }
	case []int32:
		ids, count := numbers(given)
		set = func(e errorOut) C.trl_status { return C.trl_record_set_ids(r.pointer, column, ids, count, e) }
	default:
		written, err := json.Marshal(value)
		if err != nil {
			call.fail(err)
		}
		data, size := chars(string(written))
		set = func(e errorOut) C.trl_status { return C.trl_record_set_json(r.pointer, column, data, size, e) }
	}
	_, err := call.do(set)
	return err
}

// Dataset has rows to train on or to evaluate. It is made by OpenDataset and its like.
type Dataset struct{ *object }

func (d *Dataset) base() *object {
	if d == nil {
		return nil
	}
	return d.object
}

func (d *Dataset) pointer() *C.trl_dataset { return (*C.trl_dataset)(d.base().raw()) }

func destroyDataset(pointer unsafe.Pointer) { C.trl_dataset_destroy((*C.trl_dataset)(pointer)) }

func (c *call) dataset(made *object, runtime *Runtime, open func(out **C.trl_dataset, e errorOut) C.trl_status) (*Dataset, error) {
	err := c.create(made, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return open((**C.trl_dataset)(unsafe.Pointer(out)), e)
	}, destroyDataset, runtime.base())
	if err != nil {
		return nil, err
	}
	return &Dataset{made}, nil
}

// OpenDataset opens the rows of a file, a directory or a glob.
func OpenDataset(runtime *Runtime, path string, options Options) (*Dataset, error) {
	var call call
	file, config := call.text(path), call.options(options)
	return call.dataset(new(object), runtime, func(out **C.trl_dataset, e errorOut) C.trl_status {
		return C.trl_dataset_open(runtime.pointer(), file, config, out, e)
	})
}

// OpenConfiguredDatasets opens the rows that a configuration names, to train on and to evaluate; the latter may be nil.
func OpenConfiguredDatasets(runtime *Runtime, config *Config) (train, evaluation *Dataset, err error) {
	var call call
	var first, second *C.trl_dataset
	done := false
	defer func() {
		if !done {
			C.trl_dataset_destroy(first)
			C.trl_dataset_destroy(second)
		}
	}()
	_, err = call.do(func(e errorOut) C.trl_status {
		return C.trl_dataset_open_config(runtime.pointer(), config.pointer(), &first, &second, e)
	}, runtime.base(), config.base())
	if err != nil {
		return nil, nil, err
	}
	done = true
	own := func(pointer *C.trl_dataset) *Dataset {
		if pointer == nil {
			return nil
		}
		made := &object{parents: []*object{runtime.base()}}
		made.own(unsafe.Pointer(pointer), destroyDataset)
		return &Dataset{made}
	}
	return own(first), own(second), nil
}

// DatasetFromBuffer makes a dataset of a file in memory, which is copied; format is jsonl, json, csv or text.
func DatasetFromBuffer(runtime *Runtime, format string, data []byte, options Options) (*Dataset, error) {
	var call call
	name, config := call.text(format), call.options(options)
	var bytes *C.char
	if len(data) > 0 {
		bytes = (*C.char)(unsafe.Pointer(&data[0]))
	}
	return call.dataset(new(object), runtime, func(out **C.trl_dataset, e errorOut) C.trl_status {
		return C.trl_dataset_from_buffer(runtime.pointer(), name, bytes, C.size_t(len(data)), config, out, e)
	})
}

// DatasetFromRows makes a dataset of rows, which are copied now, as encoding/json writes them.
func DatasetFromRows(runtime *Runtime, rows []Row, options Options) (*Dataset, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return nil, err
		}
	}
	return DatasetFromBuffer(runtime, "jsonl", lines.Bytes(), options)
}

// NewDataset makes a dataset of rows that are asked for when they are read.
func NewDataset(runtime *Runtime, rows Rows, options Options) (*Dataset, error) {
	var call call
	config, made := call.options(options), new(object)
	return call.dataset(made, runtime, func(out **C.trl_dataset, e errorOut) C.trl_status {
		return C.trlgo_dataset_from_callback(runtime.pointer(), made.keep(rows), config, out, e)
	})
}

// DatasetFromArrow makes a dataset of an Arrow stream, whose address (struct ArrowArrayStream *, in C's memory) is given.
// The library takes the stream over.
func DatasetFromArrow(runtime *Runtime, stream unsafe.Pointer, options Options) (*Dataset, error) {
	var call call
	config := call.options(options)
	return call.dataset(new(object), runtime, func(out **C.trl_dataset, e errorOut) C.trl_status {
		return C.trl_dataset_from_arrow(runtime.pointer(), (*C.struct_ArrowArrayStream)(stream), config, out, e)
	})
}

// RowCount reads all rows and counts them.
func (d *Dataset) RowCount() (int64, error) {
	var count C.int64_t
	_, err := new(call).do(func(e errorOut) C.trl_status { return C.trl_dataset_get_row_count(d.pointer(), &count, e) }, d.base())
	return int64(count), err
}

// Profile tells how long rows are: the numbers as JSON, and a plot as text.
func (d *Dataset) Profile(tokenizer *Tokenizer, options Options) (numbers json.RawMessage, plot string, err error) {
	var call call
	config := call.options(options)
	var object, lines *C.char
	_, err = call.do(func(e errorOut) C.trl_status {
		status := C.trl_dataset_get_profile(d.pointer(), tokenizer.pointer(), config, &object, &lines, e)
		numbers, plot = json.RawMessage(C.GoString(object)), C.GoString(lines)
		return status
	}, d.base(), tokenizer.base())
	if err != nil {
		return nil, "", err
	}
	return numbers, plot, nil
}

// Example returns one row as SFT tokenises it, as JSON.
func (d *Dataset) Example(tokenizer *Tokenizer, row int64, options Options) (json.RawMessage, error) {
	var call call
	config := call.options(options)
	return call.askJSON(func(out **C.char, e errorOut) C.trl_status {
		return C.trl_dataset_get_example(d.pointer(), tokenizer.pointer(), config, C.int64_t(row), out, e)
	}, d.base(), tokenizer.base())
}

// VisitBatches gives count micro-batches of the first epoch to a function, each as a JSON object, until that returns
// ErrStop.
func (d *Dataset) VisitBatches(tokenizer *Tokenizer, first, count int64, options Options, visit func(json.RawMessage) error) error {
	call := &call{host: visit}
	config := call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trlgo_dataset_visit_batches(d.pointer(), tokenizer.pointer(), config, C.int64_t(first), C.int64_t(count),
			call.user(), e)
	}, d.base(), tokenizer.base())
	return err
}

// Tokenizer turns text into token ids. It is made by OpenTokenizer.
type Tokenizer struct{ *object }

func (t *Tokenizer) base() *object {
	if t == nil {
		return nil
	}
	return t.object
}

func (t *Tokenizer) pointer() *C.trl_tokenizer { return (*C.trl_tokenizer)(t.base().raw()) }

// OpenTokenizer opens the tokenizer of a model directory or of a GGUF file.
func OpenTokenizer(runtime *Runtime, path string, options Options) (*Tokenizer, error) {
	made, call := &Tokenizer{new(object)}, new(call)
	file, config := call.text(path), call.options(options)
	err := call.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_tokenizer_open(runtime.pointer(), file, config, (**C.trl_tokenizer)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_tokenizer_destroy((*C.trl_tokenizer)(pointer)) }, runtime.base())
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Encode returns the token ids of a text. Whether special tokens that are spelled out in it are recognised follows the key
// split_special_tokens of the tokenizer.
func (t *Tokenizer) Encode(text string, addSpecialTokens bool) ([]int32, error) {
	return t.encode(text, flag(addSpecialTokens), -1)
}

// EncodeSplit is Encode whatever the key says: special tokens that are spelled out in the text are text like any other
// (true), or recognised (false).
func (t *Tokenizer) EncodeSplit(text string, addSpecialTokens, splitSpecialTokens bool) ([]int32, error) {
	return t.encode(text, flag(addSpecialTokens), flag(splitSpecialTokens))
}

func (t *Tokenizer) encode(text string, add, split C.int32_t) ([]int32, error) {
	data, size := chars(text)
	for room := len(text) + 8; ; {
		ids := make([]int32, room)
		var count C.size_t
		_, err := new(call).do(func(e errorOut) C.trl_status {
			return C.trl_tokenizer_encode(t.pointer(), data, size, add, split, (*C.int32_t)(unsafe.Pointer(&ids[0])), C.size_t(room),
				&count, e)
		}, t.base())
		if err != nil {
			return nil, err
		}
		if int(count) <= room {
			return ids[:count], nil
		}
		room = int(count)
	}
}

// fill returns the text that a function writes into a buffer.
func (t *Tokenizer) fill(write func(text *C.char, room C.size_t, size *C.size_t, e errorOut) C.trl_status) (string, error) {
	for room := 1024; ; {
		text := make([]byte, room)
		var size C.size_t
		_, err := new(call).do(func(e errorOut) C.trl_status {
			return write((*C.char)(unsafe.Pointer(&text[0])), C.size_t(room), &size, e)
		}, t.base())
		if err != nil {
			return "", err
		}
		if int(size) <= room {
			return string(text[:size]), nil
		}
		room = int(size)
	}
}

// Decode returns the text of token ids.
func (t *Tokenizer) Decode(ids []int32, skipSpecialTokens bool) (string, error) {
	skip := flag(skipSpecialTokens)
	list, count := numbers(ids)
	return t.fill(func(text *C.char, room C.size_t, size *C.size_t, e errorOut) C.trl_status {
		return C.trl_tokenizer_decode(t.pointer(), list, count, skip, text, room, size, e)
	})
}

// Piece returns a token as in the vocabulary.
func (t *Tokenizer) Piece(token int32) (string, error) {
	return t.fill(func(text *C.char, room C.size_t, size *C.size_t, e errorOut) C.trl_status {
		return C.trl_tokenizer_get_piece(t.pointer(), C.int32_t(token), text, room, size, e)
	})
}

// ApplyChatTemplate renders a list of messages, or an object with messages and, if wanted, tools, add_generation_prompt,
// continue_final_message and chat_template_kwargs; what is given is written as JSON.
func (t *Tokenizer) ApplyChatTemplate(messages any) (string, error) {
	written, err := json.Marshal(messages)
	if err != nil {
		return "", err
	}
	data, length := chars(string(written))
	return t.fill(func(text *C.char, room C.size_t, size *C.size_t, e errorOut) C.trl_status {
		return C.trl_tokenizer_apply_chat_template(t.pointer(), data, length, text, room, size, e)
	})
}

// Describe returns the size of the vocabulary, special tokens and the chat template, as JSON.
func (t *Tokenizer) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_tokenizer_describe(t.pointer(), out, e) },
		t.base())
}
