package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

// Float16 has the bits of a number with half precision.
type Float16 uint16

// BFloat16 has the bits of a bfloat16: the upper half of those of a float32.
type BFloat16 uint16

// Tensor has numbers of a model, row by row. Data is a []float32, []float64, []Float16, []BFloat16, []int64, []int32 or
// []uint8.
type Tensor struct {
	Shape []int64
	Data  any
}

// TensorInfo describes a tensor of a model.
type TensorInfo struct {
	Name     string  `json:"name"`
	Shape    []int64 `json:"shape"`
	DType    string  `json:"dtype"`
	Stored   string  `json:"stored"` // how weights in blocks are kept, else DType
	Trained  bool    `json:"trained"`
	Gradient bool    `json:"gradient"` // it can be read now
}

// element is a type of numbers in Go and in DLPack.
type element struct {
	code, bits C.uint8_t
	view       func(data unsafe.Pointer, count int) any
	clone      func(view any) any
	memory     func(values any) (data unsafe.Pointer, count int, ok bool)
}

func elementOf[T any](code, bits C.uint8_t) element {
	return element{code, bits,
		func(data unsafe.Pointer, count int) any { return unsafe.Slice((*T)(data), count) },
		func(view any) any { return append(make([]T, 0, len(view.([]T))), view.([]T)...) },
		func(values any) (unsafe.Pointer, int, bool) {
			list, ok := values.([]T)
			if len(list) == 0 {
				return nil, 0, ok
			}
			return unsafe.Pointer(&list[0]), len(list), ok
		}}
}

const onHost, signed, unsigned, float, bfloat = 1, 0, 1, 2, 4 // codes of DLPack

var elements = []element{elementOf[float32](float, 32), elementOf[float64](float, 64), elementOf[Float16](float, 16),
	elementOf[BFloat16](bfloat, 16), elementOf[int64](signed, 64), elementOf[int32](signed, 32), elementOf[uint8](unsigned, 8)}

func countOf(shape []int64) int {
	count := 1
	for _, extent := range shape {
		count *= int(extent)
	}
	return count
}

// Tensors lists the tensors of the model, with those of its adapters.
func (m *Model) Tensors() (found []TensorInfo, err error) {
	list, err := new(call).askJSON(func(out **C.char, e errorOut) C.trl_status {
		return C.trl_model_get_tensors(m.pointer(), out, e)
	}, m.object)
	if err == nil {
		err = json.Unmarshal(list, &found)
	}
	return found, err
}

// ReadTensor returns a tensor in Go's memory. Weights in blocks or in files have no view: TensorCopy reads them, too.
func (m *Model) ReadTensor(name string, form TensorForm) (*Tensor, error) {
	var read *Tensor
	err := m.lend(name, form, func(lent *Tensor, kind *element) error {
		read = &Tensor{lent.Shape, kind.clone(lent.Data)}
		return nil
	})
	return read, err
}

// BorrowTensor lends a tensor to a function, without a copy in Go's memory: its Data is valid until the function returns, and
// that of a TensorView, which is not to be written to, has the values of the moment until the next step or write.
func (m *Model) BorrowTensor(name string, form TensorForm, use func(tensor *Tensor) error) error {
	return m.lend(name, form, func(lent *Tensor, _ *element) error {
		defer func() { lent.Data = nil }()
		return use(lent)
	})
}

func (m *Model) lend(name string, form TensorForm, use func(lent *Tensor, kind *element) error) error {
	var call call
	var read C.trlgo_tensor
	defer func() { C.trlgo_tensor_free(read.owner) }()
	wanted := call.text(name)
	if _, err := call.do(func(e errorOut) C.trl_status {
		return C.trlgo_model_read_tensor(m.pointer(), wanted, C.int32_t(form), &read, e)
	}, m.object); err != nil {
		return err
	}
	shape := append([]int64{}, unsafe.Slice((*int64)(unsafe.Pointer(read.shape)), int(read.ndim))...)
	for i := range elements {
		if kind := &elements[i]; kind.code == read.code && kind.bits == read.bits && read.device == onHost {
			return use(&Tensor{shape, kind.view(read.data, countOf(shape))}, kind)
		}
	}
	return &Error{Status: EUnsupported, Message: fmt.Sprintf(
		"%s: Go has no numbers of the type %d of DLPack with %d bits on a device of the type %d", name, read.code, read.bits, read.device)}
}

// WriteTensor writes a tensor: the weight gets these values, converted to its type.
func (m *Model) WriteTensor(name string, tensor *Tensor) error {
	for i := range elements {
		kind := &elements[i]
		data, count, ok := kind.memory(tensor.Data)
		if !ok {
			continue
		}
		if count != countOf(tensor.Shape) {
			return &Error{Status: EInvalidArgument, Message: fmt.Sprintf("%s: %d numbers do not fill a tensor of the shape %v", name, count, tensor.Shape)}
		}
		var call call
		wanted := call.text(name)
		var shape *C.int64_t
		if len(tensor.Shape) > 0 {
			shape = (*C.int64_t)(unsafe.Pointer(&tensor.Shape[0]))
		}
		_, err := call.do(func(e errorOut) C.trl_status {
			return C.trlgo_model_write_tensor(m.pointer(), wanted, kind.code, kind.bits, data, shape, C.int32_t(len(tensor.Shape)), e)
		}, m.object)
		return err
	}
	return &Error{Status: EInvalidArgument, Message: fmt.Sprintf("%s: a %T has no numbers of a tensor", name, tensor.Data)}
}
