"""The scenario of bindings/serve_scenario.json in Python: serve_scenario.py SCENARIO MODEL ADAPTER

bindings/README.md says what it does and prints; every language prints the same text."""

import http.client
import json
import sys
from typing import Any

import libtrl


class Host:
    def __init__(self, scenario: dict[str, Any], model: str) -> None:
        self.scenario = scenario
        self.log: list[str] = []
        self.runtime = libtrl.Runtime()
        self.runtime.set_log(lambda level, component, text: self.log.append(text))
        self.server = libtrl.Server(scenario["options"], runtime=self.runtime)
        self.server.add_model(scenario["model"], libtrl.Model(model, runtime=self.runtime))

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.server.describe()["address"], timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def complete(self, request: str) -> None:
        status, answer = self.request("POST", "/v1/completions", self.scenario[request])
        print("completion", status, answer["choices"][0]["text"] if status == 200 else answer["error"]["type"])

    def served(self) -> dict[str, Any]:
        return self.server.describe()["models"][0]  # type: ignore[no-any-return]

    def state(self) -> None:
        print("server", self.server.describe()["state"])

    def start(self) -> None:
        self.log.clear()
        self.server.start()
        address = self.server.describe()["address"]
        print("log", int(any(address in text for text in self.log)))
        self.state()


def adapters(host: Host, path: str) -> None:
    name = host.scenario["adapter"]
    host.server.set_adapter(name, path)
    for adapter in host.served()["adapters"]:
        print("adapter", adapter["name"], "version", adapter["version"])
    host.complete("adapted_request")
    host.server.set_adapter(name, None)
    print("adapters", len(host.served()["adapters"]))
    host.complete("adapted_request")


def sleep(host: Host) -> None:
    host.server.sleep()
    print("model", host.served()["state"])
    host.complete("request")
    host.server.wake_up()
    print("model", host.served()["state"])
    host.complete("request")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        scenario = json.load(file)
    model, adapter = sys.argv[2:]
    try:
        libtrl.Server({scenario["refused_key"]: scenario["refused_value"]})
    except libtrl.Error as error:
        print("refused", error.key, "status", error.status)

    host = Host(scenario, model)
    with host.server:
        try:
            host.server.add_model(scenario["model"], libtrl.Model(model))
        except libtrl.Error as error:
            print("added twice, status", error.status)
        host.state()
        host.start()
        print("stopped", int(host.server.wait(0)))

        status, models = host.request("GET", "/v1/models")
        print("models", status, models["data"][0]["id"])
        host.complete("request")
        adapters(host, adapter)
        try:
            host.server.set_adapter(scenario["adapter"], model)
        except libtrl.Error as error:
            print("no adapter, status", error.status)
        sleep(host)
        print("requests", host.served()["requests"])

        host.server.cancel()
        print("stopped", int(host.server.wait()))
        host.state()
        host.start()
        host.server.stop(0)
        host.state()


if __name__ == "__main__":
    main()
