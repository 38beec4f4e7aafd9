"""The finer control of a run: halves of a step, its model and tensors, files of the host. engine_test.py runs it."""

import array
import ctypes
import gc
import threading
import unittest

import libtrl
from engine_case import ROWS, Engine
from host_test import MODEL, Files, Oops, files_of
from libtrl import _tensor

try:
    import numpy
except ImportError:
    numpy = None

WEIGHT = "model.layers.0.mlp.down_proj.weight"
NORM = "model.norm.weight"


def numbers(tensor):
    return memoryview(tensor.tobytes()).cast("f", tensor.shape)


class Halves(Engine):
    def test_together_they_are_a_step(self):
        whole, halves = self.trainer(), self.trainer()
        for _ in range(4):
            metrics = halves.backward()
            done = halves.update()
            self.assertEqual(done, whole.step())
            self.assertEqual(metrics["loss"], done["loss"])
        self.assertIsNone(halves.backward())
        self.assertEqual(halves.model().read_tensor(WEIGHT).tobytes(), whole.model().read_tensor(WEIGHT).tobytes())

    def test_the_order(self):
        trainer = self.trainer()
        with self.assertRaises(libtrl.InvalidArgumentError):
            trainer.update()
        trainer.backward()
        for call in (trainer.step, trainer.train, trainer.backward):
            with self.assertRaises(libtrl.InvalidArgumentError):
                call()
        self.assertEqual(trainer.update()["step"], 1)

    def test_a_step_without_its_update(self):
        trainer = self.trainer()
        model = trainer.model()
        before = model.read_tensor(WEIGHT).tobytes()
        trainer.backward()
        self.assertEqual(trainer.update(apply=False)["step"], 1)
        self.assertEqual(model.read_tensor(WEIGHT).tobytes(), before)
        trainer.step()
        self.assertNotEqual(model.read_tensor(WEIGHT).tobytes(), before)

    def test_gradients_are_between_them(self):
        trainer = self.trainer(optim="sgd", learning_rate=1, lr_scheduler_type="constant", max_grad_norm=0, weight_decay=0)
        model = trainer.model()
        with self.assertRaises(libtrl.NotFoundError):
            model.read_tensor(NORM, libtrl.TensorForm.GRADIENT)
        trainer.backward()
        self.assertTrue(all(tensor["gradient"] for tensor in model.tensors()))
        before, gradient = numbers(model.read_tensor(NORM)), numbers(model.read_tensor(NORM, libtrl.TensorForm.GRADIENT))
        trainer.update()
        after = numbers(model.read_tensor(NORM))
        self.assertTrue(any(gradient))
        for index, value in enumerate(after):
            self.assertAlmostEqual(value, before[index] - gradient[index], 5)
        self.assertFalse(any(tensor["gradient"] for tensor in model.tensors()))

    def test_the_learning_rate(self):
        rates = []
        usual, trainer = self.trainer(), self.trainer()
        usual.train(lambda event: rates.append(event.metrics["learning_rate"]) if event.kind == libtrl.EventKind.STEP else None)
        seen = []

        def on_event(event):
            if event.kind == libtrl.EventKind.STEP:
                seen.append(event.metrics["learning_rate"])
                trainer.set_learning_rate([1e-5, 0, None, None][len(seen) - 1])

        trainer.train(on_event)
        self.assertEqual(seen, [rates[0], 1e-5, 0.0, rates[3]])
        with self.assertRaises(libtrl.InvalidArgumentError):
            trainer.set_learning_rate(-1)


class Watching(Engine):
    def test_from_another_thread_and_in_callbacks(self):
        trainer, seen, over = self.trainer(max_steps=30), [], threading.Event()
        begun = threading.Event()

        def watch():
            begun.wait()
            while not over.is_set():
                seen.append((trainer.describe()["global_step"], trainer.integers("global_step")[0]))

        thread = threading.Thread(target=watch)
        thread.start()
        try:

            def on_event(event):
                if event.kind == libtrl.EventKind.STEP:
                    self.assertEqual(trainer.describe()["global_step"], event.metrics["step"])
                    self.assertEqual(trainer.integers("global_step"), [event.metrics["step"]])
                begun.set()

            trainer.train(on_event)
        finally:
            begun.set()
            over.set()
            thread.join()
        self.assertGreater(len({step for step, _ in seen}), 2)
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(all(step <= integer for step, integer in seen))

    def test_integers(self):
        trainer = self.trainer()
        parameters = trainer.model().describe()["parameters"]
        self.assertEqual(trainer.integers("parameter_count"), [parameters])
        self.assertEqual(trainer.integers("trained_parameter_count"), [parameters])
        self.assertEqual(trainer.integers("max_steps"), [4])
        self.assertGreater(trainer.integers("vocab_size")[0], 100)
        self.assertTrue(trainer.integers("eos_token_ids"))
        with self.assertRaises(libtrl.NotFoundError):
            trainer.integers("no such name")

    def test_evaluations_of_other_rows(self):
        own = libtrl.Dataset.from_rows(ROWS)
        trainer = self.trainer(evaluation=own)
        first = trainer.evaluate()["eval_loss"]
        other = trainer.evaluate(libtrl.Dataset.from_rows(ROWS[:2]))["eval_loss"]
        self.assertNotEqual(first, other)
        self.assertEqual(trainer.evaluate(own)["eval_loss"], first)
        self.assertEqual(sum("eval_loss" in record for record in trainer.describe()["log_history"]), 1)
        with self.assertRaises(libtrl.InvalidArgumentError):
            self.trainer().evaluate()


class TrainerModels(Engine):
    def test_one_outlives_its_trainers_object(self):
        def made():
            """A model, of whose trainer it has the only reference; or one whose trainer is closed."""
            trainer = self.trainer()
            trainer.step()
            return trainer.model()

        model = made()
        gc.collect()
        self.assertEqual(model.read_tensor(WEIGHT).shape, tuple(self.weight(model)["shape"]))
        self.assertEqual(len(model.generator().generate("the", {"generate.max_new_tokens": 2})[0].token_ids), 2)
        with self.trainer() as trainer:
            model = trainer.model()
            trainer.step()
            after = model.read_tensor(WEIGHT).tobytes()
        self.assertEqual(model.read_tensor(WEIGHT).tobytes(), after)
        self.assertGreater(model.describe()["parameters"], 1000)

    def weight(self, model):
        return next(tensor for tensor in model.tensors() if tensor["name"] == WEIGHT)

    def test_what_belongs_to_the_run_is_refused(self):
        model = self.trainer().model()
        for call in (lambda: model.save(self.folder), lambda: model.use_adapter(None), lambda: model.merge_adapter("a")):
            with self.assertRaises(libtrl.UnsupportedError):
                call()

    def test_one_is_made_in_a_callback_and_busy_there(self):
        trainer, made = self.trainer(max_steps=1), []

        def on_event(event):
            made.append(trainer.model())
            with self.assertRaises(libtrl.BusyError):
                made[-1].tensors()
            with self.assertRaises(libtrl.BusyError):
                made[-1].write_tensor(WEIGHT, values)

        values = trainer.model().read_tensor(WEIGHT)
        trainer.train(on_event)
        made[0].write_tensor(WEIGHT, values)
        self.assertEqual(made[-1].read_tensor(WEIGHT).tobytes(), values.tobytes())


class Capsule:
    """An object that exports a tensor as packages did before version 1 of DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor.__dlpack__()


class Tensors(Engine):
    def setUp(self):
        self.model = libtrl.Model(MODEL)
        self.addCleanup(self.model.close)

    def held(self):
        gc.collect()
        with libtrl.Runtime() as runtime:
            return runtime.memory("weights")[0]

    def test_are_listed(self):
        tensors = {tensor["name"]: tensor for tensor in self.model.tensors()}
        tensor = self.model.read_tensor(WEIGHT)
        self.assertEqual((tensors[WEIGHT]["shape"], tensors[WEIGHT]["dtype"]), (list(tensor.shape), tensor.dtype))
        self.assertEqual((tensor.dtype, tensor.__dlpack_device__(), tensor.read_only), ("float32", (1, 0), False))
        self.assertIn(WEIGHT, tensors)
        self.assertFalse(tensors[WEIGHT]["trained"])
        with self.assertRaises(libtrl.NotFoundError):
            self.model.read_tensor("no such tensor")

    def test_a_view_and_a_copy(self):
        """A view is the weight's memory, which a step of a run changes, too."""
        trainer = self.trainer()
        for model, change in ((self.model, self.double), (trainer.model(), lambda _: trainer.step())):
            view, copy = model.read_tensor(WEIGHT, libtrl.TensorForm.VIEW), model.read_tensor(WEIGHT)
            before = copy.tobytes()
            self.assertTrue(view.read_only)
            self.assertEqual(view.tobytes(), before)
            change(model)
            self.assertEqual(copy.tobytes(), before)
            after = model.read_tensor(WEIGHT, libtrl.TensorForm.VIEW).tobytes()
            self.assertNotEqual(after, before)
            model.close()
            self.assertEqual(len(view.tobytes()), len(before))  # it can still be read
        trainer.close()
        self.assertEqual(len(view.tobytes()), len(before))

    def double(self, model):
        values = model.read_tensor(WEIGHT)
        doubled = array.array("f", (2 * number for row in numbers(values).tolist() for number in row))
        model.write_tensor(WEIGHT, memoryview(doubled).cast("B").cast("f", values.shape))
        self.assertEqual(model.read_tensor(WEIGHT).tobytes(), doubled.tobytes())

    def test_are_written_from_what_has_numbers(self):
        wanted = self.model.read_tensor(NORM)
        size = wanted.shape[0]
        with libtrl.Model(MODEL) as other:
            for values in (wanted, Capsule(wanted), memoryview(wanted.tobytes()).cast("f"), numbers(wanted)[::-1][::-1],
                           (ctypes.c_double * size)(*numbers(wanted))):
                other.write_tensor(NORM, (ctypes.c_float * size)())
                self.assertFalse(any(numbers(other.read_tensor(NORM))))
                other.write_tensor(NORM, values)
                self.assertEqual(other.read_tensor(NORM).tobytes(), wanted.tobytes())
            for values in (self.model.read_tensor(WEIGHT), (ctypes.c_float * (size + 1))()):
                with self.assertRaises(libtrl.InvalidArgumentError):
                    other.write_tensor(NORM, values)
            for values in ((ctypes.c_int * size)(), [0.0] * size):
                with self.assertRaises(TypeError):
                    other.write_tensor(NORM, values)
            with self.assertRaises(libtrl.NotFoundError):
                other.write_tensor("no such tensor", wanted)
        self.assertEqual(wanted.tobytes(), self.model.read_tensor(NORM).tobytes())

    def test_memory_is_freed_once(self):
        """By the object, by its close, or by the package that took the tensor."""
        before = self.held()
        tensor = self.model.read_tensor(WEIGHT)
        size = len(tensor.tobytes())
        self.assertGreaterEqual(self.held(), before + size)
        tensor.close()
        self.assertEqual(self.held(), before)
        with self.assertRaisesRegex(ValueError, "this Tensor is closed"):
            tensor.tobytes()
        tensor = self.model.read_tensor(WEIGHT)
        capsules = [tensor.__dlpack__(max_version=(1, 0)), tensor.__dlpack__(),
                    tensor.__dlpack__(max_version=(1, 0), copy=True)]
        self.assertIs(tensor.__dlpack__(max_version=(1, 1)), capsules[0])
        del tensor
        self.assertEqual(self.held(), before)
        for capsule in capsules:
            self.assertIn("used_dltensor", repr(capsule))  # nobody can take it now

    def test_a_package_takes_one(self):
        before, tensor = self.held(), self.model.read_tensor(WEIGHT)
        capsule = tensor.__dlpack__(max_version=(1, 0), stream=None, dl_device=(1, 0), copy=False)
        pointer = _tensor.capsule_pointer(capsule, b"dltensor_versioned")
        _tensor.rename_capsule(capsule, b"used_dltensor_versioned")
        for call in (tensor.tobytes, tensor.__dlpack__, lambda: tensor.__dlpack__(max_version=(1, 0))):
            with self.assertRaisesRegex(BufferError, "read it again"):
                call()
        self.assertEqual(tensor.shape, self.model.read_tensor(WEIGHT).shape)
        del tensor
        self.assertGreater(self.held(), before)
        _tensor.delete(ctypes.c_void_p(pointer))
        self.assertEqual(self.held(), before)
        for arguments in ({"dl_device": (2, 0)}, {"copy": False}):
            with self.assertRaises(BufferError):
                self.model.read_tensor(WEIGHT).__dlpack__(**arguments)

    @unittest.skipUnless(numpy, "there is no NumPy")
    def test_numpy(self):
        before, tensor = self.held(), self.model.read_tensor(WEIGHT)
        found = numpy.from_dlpack(tensor)
        self.assertEqual((found.shape, found.dtype, found.tobytes()),
                         (tensor.shape, numpy.float32, self.model.read_tensor(WEIGHT).tobytes()))
        del tensor
        with libtrl.Model(MODEL) as other:
            for values in (found.T.copy().T * 2, found.astype(numpy.float64) * 2, found.astype(numpy.float16) * 2):
                other.write_tensor(WEIGHT, values)
                self.assertTrue(numpy.allclose(numpy.from_dlpack(other.read_tensor(WEIGHT)), found * 2, rtol=1e-3))
            other.write_tensor(WEIGHT, found)
            view = numpy.from_dlpack(other.read_tensor(WEIGHT, libtrl.TensorForm.VIEW))
            self.assertFalse(view.flags.writeable)
            self.assertTrue((view == found).all())
            with self.assertRaisesRegex(ValueError, "reshape"):  # while one is freed
                numpy.from_dlpack(other.read_tensor(NORM)).reshape(3, 0)
            with libtrl.Model(MODEL, {"dtype": "bfloat16"}) as half, self.assertRaisesRegex(RuntimeError, "dtype"):
                numpy.from_dlpack(half.read_tensor(WEIGHT))
        del found, values, view
        self.assertEqual(self.held(), before)


class LogProbabilities(Engine):
    def test_token_functions_get_them(self):
        options, seen = {"generate.max_new_tokens": 4, "generate.logprobs": 0}, []
        with libtrl.Model(MODEL) as model, model.generator() as generator:
            done = generator.generate("the kernel", options, on_token=lambda *token: seen.append(token))[0]
            self.assertEqual([token[3] for token in seen], done.details["logprobs"])
            generator.add("the kernel", options)
            stepped = []
            while generator.step(lambda *token: stepped.append(token[1:])):
                pass
            self.assertEqual(stepped, [token[1:] for token in seen])
            generator.generate("the", {"generate.max_new_tokens": 1}, on_token=lambda *token: seen.append(token))
            self.assertNotEqual(seen[-1][3], seen[-1][3])  # not a number


class EngineMounts(Engine):
    def test_a_run_reads_and_saves_files_of_the_host(self):
        files, runtime = Files(**{f"base/{name}": data for name, data in files_of(MODEL).items()}), libtrl.Runtime()
        runtime.mount("run", files.read, files.write)
        trainer = self.trainer(runtime=runtime, model_name_or_path="host://run/base", max_steps=2)
        trainer.step()
        trainer.save("host://run/checkpoint", {"save.kind": "checkpoint"})
        last = trainer.step()
        trainer.save("host://run/trained")
        done = libtrl.WriteKind.DONE
        self.assertEqual(files.told, [(done, "checkpoint"), (done, "trained")])
        resumed = self.trainer(resume_from_checkpoint="host://run/checkpoint", max_steps=2)
        self.assertEqual(resumed.step(), last)
        with libtrl.Model("host://run/trained") as model:
            self.assertEqual(model.read_tensor(WEIGHT).tobytes(), trainer.model().read_tensor(WEIGHT).tobytes())
        runtime.close()
        trainer.save("host://run/again")  # the trainer keeps the mount
        self.assertEqual(files.files["again/model.safetensors"], files.files["trained/model.safetensors"])

    def test_a_save_that_fails_is_dropped(self):
        files, runtime, oops = Files(), libtrl.Runtime(), Oops("the disk is full")

        def write(what, file, offset, data):
            if what == libtrl.WriteKind.DATA and file.endswith("model.safetensors"):
                raise oops
            files.write(what, file, offset, data)

        runtime.mount("full", files.read, write)
        trainer = self.trainer(runtime=runtime)
        with self.assertRaises(Oops) as caught:
            trainer.save("host://full/model")
        self.assertIs(caught.exception, oops)
        self.assertEqual((files.told, files.files), ([(libtrl.WriteKind.DROPPED, "model")], {}))
        runtime.mount("unwritable", files.read)
        with self.assertRaises(libtrl.InputOutputError):
            trainer.save("host://unwritable/model")
        self.assertIsNotNone(trainer.step())
