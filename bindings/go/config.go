package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"sort"
	"unsafe"
)

// Options are what functions take as options: a *Config, Keys, or nil for the defaults.
type Options interface {
	config() (config *Config, made bool, err error)
}

// Keys are keys and values of a configuration. A string is taken as it is, any other value is written as JSON.
type Keys map[string]any

func (k Keys) config() (*Config, bool, error) {
	config, err := NewConfig(k)
	return config, config != nil, err
}

// Config is a configuration: every key has its default until it is set. An unknown key is an error that names the one
// that was meant. It is made by NewConfig.
type Config struct{ *object }

func (c *Config) base() *object {
	if c == nil {
		return nil
	}
	return c.object
}

func (c *Config) pointer() *C.trl_config { return (*C.trl_config)(c.base().raw()) }

func (c *Config) config() (*Config, bool, error) { return c, false, nil }

// NewConfig makes a configuration with these keys; nil: with the defaults.
func NewConfig(keys Keys) (*Config, error) {
	config := &Config{new(object)}
	err := new(call).create(config.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_config_create((**C.trl_config)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_config_destroy((*C.trl_config)(pointer)) })
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names) // of several errors always the same one
	for _, name := range names {
		if err := config.Set(name, keys[name]); err != nil {
			config.Close()
			return nil, err
		}
	}
	return config, nil
}

// Set sets a key: a string is taken as it is, any other value is written as JSON.
func (c *Config) Set(key string, value any) error {
	text, ok := value.(string)
	if !ok {
		data, err := json.Marshal(value)
		if err != nil {
			return &Error{Status: EInvalidConfig, Key: key, Message: fmt.Sprintf("%s: %v", key, err)}
		}
		text = string(data)
	}
	var call call
	name, copied := call.text(key), call.text(text)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_config_set(c.pointer(), name, copied, e) }, c.base())
	return err
}

// Unset sets a key back to its default.
func (c *Config) Unset(key string) error {
	var call call
	name := call.text(key)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_config_unset(c.pointer(), name, e) }, c.base())
	return err
}

// Get returns the value of a key as canonical text, "null" when there is none.
func (c *Config) Get(key string) (string, error) {
	var call call
	name := call.text(key)
	return call.ask(func(out **C.char, e errorOut) C.trl_status { return C.trl_config_get(c.pointer(), name, out, e) }, c.base())
}

// Origin returns where the value of a key comes from: "default", "set", or the place in a file.
func (c *Config) Origin(key string) (string, error) {
	var call call
	name := call.text(key)
	return call.ask(func(out **C.char, e errorOut) C.trl_status {
		return C.trl_config_get_origin(c.pointer(), name, out, e)
	}, c.base())
}

// Load sets every key of a YAML or JSON file.
func (c *Config) Load(path string) error {
	var call call
	file := call.text(path)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_config_load(c.pointer(), file, e) }, c.base())
	return err
}

// LoadText sets every key of a YAML or JSON text.
func (c *Config) LoadText(text string) error {
	data, size := chars(text)
	_, err := new(call).do(func(e errorOut) C.trl_status { return C.trl_config_load_text(c.pointer(), data, size, e) }, c.base())
	return err
}

// Schema returns a JSON schema of a configuration file: of the keys that a trainer reads, with its defaults, or with "" of
// all keys.
func Schema(trainer string) (json.RawMessage, error) {
	var call call
	name := call.optional(trainer)
	return call.askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_config_get_schema(name, out, e) })
}

// Describe returns the keys that were set, as a JSON object under their canonical names.
func (c *Config) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_config_describe(c.pointer(), out, e) },
		c.base())
}

// Warnings returns warnings about the keys that were set.
func (c *Config) Warnings() (warnings []string, err error) {
	list, err := new(call).askJSON(func(out **C.char, e errorOut) C.trl_status {
		return C.trl_config_get_warnings(c.pointer(), out, e)
	}, c.base())
	if err == nil {
		err = json.Unmarshal(list, &warnings)
	}
	return warnings, err
}
