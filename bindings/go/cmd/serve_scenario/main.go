// Command serve_scenario runs bindings/serve_scenario.json: serve_scenario SCENARIO MODEL ADAPTER
//
// bindings/README.md describes its steps and its output, which is the same in every language.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"libtrl/trl"
)

type scenario struct {
	Options        map[string]string `json:"options"`
	RefusedKey     string            `json:"refused_key"`
	RefusedValue   string            `json:"refused_value"`
	Model          string            `json:"model"`
	Adapter        string            `json:"adapter"`
	Request        string            `json:"request"`
	AdaptedRequest string            `json:"adapted_request"`
}

type description struct {
	State   string   `json:"state"`
	Address string   `json:"address"`
	Models  []served `json:"models"`
}

type served struct {
	State    string `json:"state"`
	Requests int    `json:"requests"`
	Adapters []struct {
		Name    string `json:"name"`
		Version int    `json:"version"`
	} `json:"adapters"`
}

// answer has the fields of all answers.
type answer struct {
	Data []struct {
		ID string `json:"id"`
	} `json:"data"`
	Choices []struct {
		Text string `json:"text"`
	} `json:"choices"`
	Error struct {
		Type string `json:"type"`
	} `json:"error"`
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

func statusOf(err error) int32 {
	var failed *trl.Error
	errors.As(err, &failed)
	return int32(failed.Status)
}

func keys(texts map[string]string) trl.Keys {
	found := trl.Keys{}
	for key, text := range texts {
		found[key] = text
	}
	return found
}

type host struct {
	given  *scenario
	server *trl.Server
	log    strings.Builder
}

func (h *host) described() description {
	var found description
	check(json.Unmarshal(must(h.server.Describe()), &found))
	return found
}

func (h *host) served() served { return h.described().Models[0] }

func (h *host) printState() { fmt.Println("server", h.described().State) }

func (h *host) request(method, path, body string) (int, answer) {
	request := must(http.NewRequest(method, "http://"+h.described().Address+path, strings.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: time.Minute}
	response := must(client.Do(request))
	defer response.Body.Close()
	var said answer
	check(json.NewDecoder(response.Body).Decode(&said))
	return response.StatusCode, said
}

func (h *host) complete(request string) {
	status, said := h.request("POST", "/v1/completions", request)
	if status == http.StatusOK {
		fmt.Println("completion", status, said.Choices[0].Text)
	} else {
		fmt.Println("completion", status, said.Error.Type)
	}
}

func (h *host) start() {
	h.log.Reset()
	check(h.server.Start())
	fmt.Println("log", bit(strings.Contains(h.log.String(), h.described().Address)))
	h.printState()
}

func (h *host) adapters(path string) {
	check(h.server.SetAdapter("", h.given.Adapter, path))
	for _, adapter := range h.served().Adapters {
		fmt.Println("adapter", adapter.Name, "version", adapter.Version)
	}
	h.complete(h.given.AdaptedRequest)
	check(h.server.RemoveAdapter("", h.given.Adapter))
	fmt.Println("adapters", len(h.served().Adapters))
	h.complete(h.given.AdaptedRequest)
}

func (h *host) sleep() {
	check(h.server.Sleep("", 1, ""))
	fmt.Println("model", h.served().State)
	h.complete(h.given.Request)
	check(h.server.WakeUp("", ""))
	fmt.Println("model", h.served().State)
	h.complete(h.given.Request)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: serve_scenario SCENARIO MODEL ADAPTER")
	}
	var given scenario
	check(json.Unmarshal(must(os.ReadFile(os.Args[1])), &given))
	model, adapter := os.Args[2], os.Args[3]
	_, err := trl.NewServer(nil, trl.Keys{given.RefusedKey: given.RefusedValue})
	var refused *trl.Error
	if errors.As(err, &refused) {
		fmt.Println("refused", refused.Key, "status", int32(refused.Status))
	}

	runtime := must(trl.NewRuntime(nil))
	h := &host{given: &given}
	check(runtime.SetLog(func(_ trl.LogLevel, _, text string) { h.log.WriteString(text + "\n") }))
	h.server = must(trl.NewServer(runtime, keys(given.Options)))
	defer h.server.Close()
	opened := must(trl.OpenModel(runtime, model, nil))
	check(h.server.AddModel(given.Model, opened, nil, nil))
	fmt.Println("added twice, status", statusOf(h.server.AddModel(given.Model, opened, nil, nil)))
	check(opened.Close())
	h.printState()
	h.start()
	fmt.Println("stopped", bit(!must(h.server.Running())))

	status, models := h.request("GET", "/v1/models", "")
	fmt.Println("models", status, models.Data[0].ID)
	h.complete(given.Request)
	h.adapters(adapter)
	fmt.Println("no adapter, status", statusOf(h.server.SetAdapter("", given.Adapter, model)))
	h.sleep()
	fmt.Println("requests", h.served().Requests)

	h.server.Cancel()
	check(h.server.Wait(context.Background()))
	fmt.Println("stopped", bit(!must(h.server.Running())))
	h.printState()
	h.start()
	check(h.server.Stop(0))
	h.printState()
}
