"""Servers of the binding for Python: python3 -X dev -W error server_test.py [unittest's arguments]"""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import libtrl
from host_test import MODEL, SOURCE, Case, Oops

ADAPTER = os.path.join(SOURCE, "tests/golden/trajectories/sft_lora/adapter_final")
KEYS = {"serve.port": 0}
LOADED = """
import libtrl
def loaded():
    with open("/proc/self/maps") as maps:
        return "libtrl_serve.so" in maps.read()
libtrl.has_feature("serve")
print(loaded())
libtrl.Server({"serve.port": 0}).close()
print(loaded())
"""


class Servers(Case):
    def serve(self, runtime=None):
        server = libtrl.Server(KEYS, runtime=runtime)
        server.add_model("tiny", libtrl.Model(MODEL))
        return server

    def health(self, server):
        with urllib.request.urlopen(f"http://{server.describe()['address']}/health", timeout=60) as response:
            return response.status

    def test_its_library_is_loaded_by_the_first_one(self):
        said = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.split(), ["False", "True"])

    def test_a_library_without_a_server_beside_it(self):
        code = "import libtrl; libtrl._library.lib.path = lambda: '/nowhere/libtrl.so'; libtrl.Server()"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertIn("ImportError: the server's library libtrl_serve.so.0 cannot be loaded beside /nowhere/libtrl.so", said.stderr)

    def test_what_the_log_function_raises_comes_out_of_start(self):
        def log(level, component, text):
            raise Oops(text)

        with libtrl.Runtime() as runtime, self.serve(runtime) as server:
            runtime.set_log(log)
            self.assertRaisesRegex(Oops, "serving tiny at", server.start)
            self.assertEqual(server.describe()["state"], "running")
            runtime.set_log(None)

    def test_log_lines_come_on_this_thread(self):
        threads = set()
        with libtrl.Runtime() as runtime, self.serve(runtime) as server:
            runtime.set_log(lambda level, component, text: threads.add(threading.get_ident()))
            server.start()
            self.assertEqual(self.health(server), 200)
            self.assertFalse(server.wait(0.2))
            runtime.set_log(None)
        self.assertEqual(threads, {threading.get_ident()})

    def test_interrupts_end_a_wait_and_not_the_server(self):
        with self.serve() as server:
            server.start()
            began = time.monotonic()
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            self.assertRaises(KeyboardInterrupt, server.wait)
            timer.join()
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(self.health(server), 200)

    def test_another_thread_stops_what_this_one_waits_for(self):
        with self.serve() as server:
            server.start()
            timer = threading.Timer(0.2, server.cancel)
            timer.start()
            self.assertTrue(server.wait())
            timer.join()
            self.assertEqual(server.describe()["state"], "stopped")

    def test_closing_it_ends_it(self):
        server = self.serve()
        server.start()
        address = server.describe()["address"]
        server.close()
        self.assertTrue(server.closed)
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(f"http://{address}/health", timeout=60)
        self.assertRaisesRegex(ValueError, "this Server is closed", server.start)

    def test_what_it_serves_may_be_closed_before(self):
        model = libtrl.Model(MODEL)
        with libtrl.Server(KEYS) as server, libtrl.Tokenizer(MODEL) as tokenizer:
            server.add_model("tiny", model, {"serve.max_num_seqs": 1}, tokenizer=tokenizer)
            server.add_generator("other", model.generator(tokenizer), tokenizer)
            model.close()
            server.start()
            self.assertEqual([served["name"] for served in server.describe()["models"]], ["tiny", "other"])
            server.sleep("other", level=2, mode="wait")
            self.assertEqual([served["state"] for served in server.describe()["models"]], ["awake", "asleep"])
            server.wake_up("other", tags="weights,kv_cache")
            self.assertRaises(libtrl.NotFoundError, server.sleep, "none")
            self.assertRaises(libtrl.InvalidArgumentError, server.set_adapter, "tiny", ADAPTER)
            server.stop(0)
            self.assertTrue(server.wait(0))


if __name__ == "__main__":
    unittest.main()
