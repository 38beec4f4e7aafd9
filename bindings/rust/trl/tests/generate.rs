//! The binding for Rust with the engine: models, tensors, generators and completions.

mod support;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use support::json::Json;
use support::{config, numbers, options, panic_of, rows, trainer, Folder, MATRIX, MODEL};
use trl::{
    Bf16, Element, Event, EventKind, Generator, Model, Runtime, Status, Tensor, TextForm, Tokenizer, Trainer, WriteKind,
};

fn generator() -> Generator {
    let tokenizer = Tokenizer::open(MODEL, None, None).unwrap();
    Model::open(MODEL, None, None).unwrap().generator(&tokenizer).unwrap()
}

#[test]
fn prompts_together() {
    let mut generator = generator();
    let keys = [
        ("generate.max_new_tokens", 4),
        ("generate.num_return_sequences", 2),
        ("generate.logprobs", 0),
        ("generate.temperature", 1),
    ];
    let (mut seen, mut told) = (Vec::new(), Vec::new());
    let completions = generator
        .generate(&["the kernel", "a page"], &options(&keys), |token| {
            seen.push((token.completion, token.id));
            told.push((token.completion, token.log_probability.unwrap()));
        })
        .unwrap();
    assert_eq!(completions.len(), 4);
    for (index, completion) in completions.iter().enumerate() {
        assert_eq!(completion.finish_reason(), Some("length"));
        let tokens: Vec<i32> = seen.iter().filter(|(number, _)| *number == index).map(|(_, id)| *id).collect();
        assert_eq!(tokens, completion.token_ids());
        let json = Json::read(completion.json());
        assert_eq!((json["token_ids"].ids(), json["text"].text()), (tokens, completion.text()));
        let of_tokens: Vec<f64> = json["logprobs"].list().iter().map(Json::number).collect();
        assert_eq!(told.iter().filter(|(number, _)| *number == index).map(|one| one.1).collect::<Vec<_>>(), of_tokens);
    }
    let without = |token: trl::Token<'_>| assert_eq!(token.log_probability, None);
    generator.generate(&["the"], &options(&[("generate.max_new_tokens", 1)]), without).unwrap();
    assert!(completions.get(4).is_none());
    assert!(generator.generate(&[] as &[&str], None, |_| ()).unwrap().is_empty());
}

#[test]
fn an_answer_ends_a_completion_and_a_panic_the_call() {
    let mut generator = generator();
    let nine = options(&[("generate.max_new_tokens", 9)]);
    let done = generator.generate(&["the"], &nine, |_| ControlFlow::Break(())).unwrap();
    assert_eq!(done.get(0).unwrap().token_ids().len(), 1);
    assert_eq!(done.get(0).unwrap().finish_reason(), Some("callback"));
    assert_eq!(panic_of(|| generator.generate(&["the"], &nine, |_| -> () { panic!("at a token") })), "at a token");
    let error = generator.generate(&["the"], &nine, |_| Err::<(), _>("no more")).err().unwrap();
    assert_eq!(error.source().unwrap().to_string(), "no more");
    assert_eq!(generator.generate(&["the"], &nine, |_| ()).unwrap().get(0).unwrap().token_ids().len(), 9);
}

#[test]
fn requests() {
    let mut generator = generator();
    let keys = [("generate.max_new_tokens", "3"), ("generate.keep", "true")];
    let first = generator.add("the kernel", &options(&keys)).unwrap();
    let second = generator.add(&[1, 2, 3], &options(&[("generate.max_new_tokens", 50)])).unwrap();
    let mut tokens = 0;
    while tokens < 6 {
        assert!(generator.step(|_| tokens += 1).unwrap());
    }
    assert_eq!(generator.take(first, 1).unwrap().get(0).unwrap().finish_reason(), Some("length"));
    generator.extend(first, " waits", &options(&[("generate.max_new_tokens", 2)])).unwrap();
    generator.cancel(second, 1).unwrap();
    while generator.step(|_| ()).unwrap() {}
    assert_eq!(generator.take(first, 1).unwrap().get(0).unwrap().token_ids().len(), 2);
    assert_eq!(generator.take(second, 1).unwrap().get(0).unwrap().finish_reason(), Some("cancelled"));
    generator.cancel(first, 1).unwrap();
    generator.release_memory().unwrap();
    assert_eq!(generator.take(second, 1).err().unwrap().status(), Status::E_NOT_FOUND);
}

#[test]
fn a_function_that_fails_at_a_token_ends_its_completion_alone() {
    let mut generator = generator();
    let three = options(&[("generate.max_new_tokens", "3"), ("generate.ignore_eos", "true")]);
    for panics in [false, true] {
        let add = |prompt: &&str| generator.add(*prompt, &three).unwrap();
        let numbers: Vec<usize> = ["the kernel", "a page", "the lock"].iter().map(add).collect();
        let mut told = Vec::new();
        let mut on_token = |token: trl::Token<'_>| {
            told.push(token.completion);
            match token.completion == numbers[1] {
                true if panics => panic!("at a token"),
                true => Err("at a token"),
                false => Ok(()),
            }
        };
        if panics {
            assert_eq!(panic_of(|| generator.step(&mut on_token)), "at a token");
        } else {
            let error = generator.step(&mut on_token).unwrap_err();
            let source = error.source().unwrap().to_string();
            assert_eq!((error.status(), source.as_str()), (Status::E_CALLBACK, "at a token"));
        }
        while generator.step(&mut on_token).unwrap() {}
        for (number, (reason, count)) in numbers.into_iter().zip([("length", 3), ("cancelled", 1), ("length", 3)]) {
            let taken = generator.take(number, 1).unwrap();
            let done = taken.get(0).unwrap();
            assert_eq!((done.finish_reason(), done.token_ids().len()), (Some(reason), count));
            assert_eq!(told.iter().filter(|&&one| one == number).count(), count);
        }
    }
}

#[test]
fn streams() {
    let mut generator = generator();
    let six = options(&[("generate.max_new_tokens", 6)]);
    let whole = generator.generate(&["the kernel"], &six, |_| ()).unwrap();
    let whole = whole.get(0).unwrap();
    let pieces: Vec<(i32, String)> = generator.stream("the kernel", &six).unwrap().map(Result::unwrap).collect();
    assert_eq!(pieces.iter().map(|(id, _)| *id).collect::<Vec<_>>(), whole.token_ids());
    assert_eq!(pieces.iter().map(|(_, text)| text.as_str()).collect::<String>(), whole.text());
    let mut stream = generator.stream("the kernel", &six).unwrap();
    stream.next().unwrap().unwrap();
    drop(stream);
    assert!(!generator.step(|_| ()).unwrap());
}

#[test]
fn describes_converts_and_saves() {
    let folder = Folder::new();
    let mut model = Model::open(MODEL, None, None).unwrap();
    let parameters = |model: &Model| Json::read(&model.describe().unwrap())["parameters"].number();
    let target = folder.join("model.gguf");
    trl::convert(MODEL, &target, &options(&[("convert.type", "f32")]), None).unwrap();
    let mut again = Model::open(&target, None, None).unwrap();
    assert_eq!(parameters(&again), parameters(&model));
    again.save(folder.join("again"), None).unwrap();
    assert!(folder.join("again/config.json").exists());
    assert_eq!(model.score(&["text"], TextForm::ANSWER, None).unwrap_err().status(), Status::E_UNSUPPORTED);
    assert_eq!(Model::open("/nowhere", None, None).err().unwrap().status(), Status::E_NOT_FOUND);
}

/// It sees every step, and lives on without the trainer's object, as tensors do without it.
#[test]
fn the_model_of_a_trainer() {
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[]);
    let mut model = trainer.model().unwrap();
    let first = numbers(&mut model, MATRIX);
    let view = unsafe { model.view_tensor(MATRIX) }.unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap(), first);
    trainer.step().unwrap();
    let copy = model.read_tensor(MATRIX).unwrap();
    assert_ne!(copy.as_slice::<f32>().unwrap(), first);
    assert_eq!(view.as_slice::<f32>().unwrap().len(), first.len()); // its memory is readable
    trainer.save_to(folder.join("model"), None).unwrap();
    let mut saved = Model::open(folder.join("model"), None, None).unwrap();
    assert_eq!(copy.as_slice::<f32>().unwrap(), numbers(&mut saved, MATRIX));
    assert_eq!(model.save(folder.join("again"), None).unwrap_err().status(), Status::E_UNSUPPORTED);

    drop(trainer);
    assert_eq!(copy.as_slice::<f32>().unwrap(), numbers(&mut model, MATRIX));
    let few = options(&[("generate.max_new_tokens", 1)]);
    assert_eq!(model.generator(None).unwrap().generate(&["the"], &few, |_| ()).unwrap().len(), 1);
    drop(model);
    assert_eq!(view.as_slice::<f32>().unwrap().len(), first.len());
    thread::spawn(move || drop((view, copy))).join().unwrap();
}

#[test]
fn tensors_are_listed_read_and_written() {
    let mut model = Model::open(MODEL, None, None).unwrap();
    let list = Json::read(&model.tensors().unwrap());
    let entry = list.list().iter().find(|entry| entry["name"].text() == MATRIX).unwrap();
    let shape: Vec<i64> = entry["shape"].list().iter().map(|size| size.number() as i64).collect();
    assert_eq!((entry["dtype"].text(), entry["trained"].clone()), ("float32", Json::Bool(false)));

    let mut tensor = model.read_tensor(MATRIX).unwrap();
    assert_eq!((tensor.shape(), tensor.dtype(), tensor.device()), (&shape[..], f32::DTYPE, (1, 0)));
    tensor.as_mut_slice::<f32>().unwrap()[1] = 0.5;
    let expected = tensor.as_slice::<f32>().unwrap().to_vec();
    model.write_tensor(MATRIX, tensor).unwrap();
    assert_eq!(numbers(&mut model, MATRIX), expected);
    let view = unsafe { model.view_tensor(MATRIX) }.unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap(), expected);

    let halves = Tensor::new(&shape, vec![Bf16(0x3f00); expected.len()]).unwrap();
    model.write_tensor(MATRIX, halves).unwrap();
    assert!(numbers(&mut model, MATRIX).iter().all(|&number| number == 0.5));
    model.write_tensor("model.norm.weight", vec![2f64; 64]).unwrap();
    assert_eq!(numbers(&mut model, "model.norm.weight"), [2.0; 64]);

    assert_eq!(model.read_tensor("no such tensor").unwrap_err().status(), Status::E_NOT_FOUND);
    let refused = [model.write_tensor(MATRIX, vec![0f32]), model.write_tensor("model.norm.weight", vec![0i32; 64])];
    assert_eq!(refused.map(|result| result.unwrap_err().status()), [Status::E_INVALID_ARGUMENT; 2]);
}

static DELETED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn delete(_: *mut trl::sys::DLManagedTensorVersioned) {
    DELETED.fetch_add(1, Ordering::Relaxed);
}

/// A tensor is freed once, by whoever has it: the library does not take it while it is busy.
#[test]
fn a_tensor_is_freed_once() {
    let counted = || unsafe {
        let pointer = Tensor::from(vec![1f32; 64]).into_dlpack();
        let deleter: *mut unsafe extern "C" fn(_) = pointer.as_ptr().cast::<u8>().add(16).cast();
        *deleter = delete;
        Tensor::from_dlpack(pointer)
    };
    let mut number = 0;
    let mut once_more = || {
        number += 1;
        assert_eq!(DELETED.load(Ordering::Relaxed), number);
    };
    drop(counted());
    once_more();
    let folder = Folder::new();
    let mut trainer = trainer(&folder, &[("max_steps", "1")]);
    let mut model = trainer.model().unwrap();
    model.write_tensor("model.norm.weight", counted()).unwrap();
    once_more();
    for name in [MATRIX, "no such tensor", "a\0b"] {
        model.write_tensor(name, counted()).unwrap_err();
        once_more();
    }
    let on_event = |event: Event<'_>| {
        if event.kind() == EventKind::STEP {
            let error = model.write_tensor("model.norm.weight", counted()).unwrap_err();
            assert_eq!(error.status(), Status::E_BUSY);
            once_more();
        }
    };
    trainer.train(on_event).unwrap();
}

/// Saved into memory, and opened from there.
#[test]
fn files_of_the_host() {
    let folder = Folder::new();
    let (runtime, mut trainer) = (Runtime::new(None).unwrap(), trainer(&folder, &[]));
    let files = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
    let (kinds, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (source, target, told, failing) = (files.clone(), files.clone(), kinds.clone(), fails.clone());
    let read = move |file: &str, offset: u64, buffer: Option<&mut [u8]>| -> std::io::Result<Option<u64>> {
        Ok(match (source.lock().unwrap().get(file), buffer) {
            (None, _) => None,
            (Some(data), None) => Some(data.len() as u64),
            (Some(data), Some(buffer)) => Some((&data[offset as usize..]).read(buffer)? as u64),
        })
    };
    let write = move |kind: WriteKind, file: &str, offset: u64, data: &[u8]| -> Result<(), trl::HostError> {
        if kind != WriteKind::DATA {
            told.lock().unwrap().push((kind, file.to_string()));
            return Ok(());
        }
        match failing.load(Ordering::Relaxed) {
            1 => return Err("the disk is full".into()),
            2 => panic!("in a file"),
            _ => {}
        }
        let mut files = target.lock().unwrap();
        let stored = files.entry(file.to_string()).or_default();
        stored.truncate(offset as usize);
        stored.extend_from_slice(data);
        Ok(())
    };
    runtime.mount("rust-engine", read, write).unwrap();
    trainer.save_to("host://rust-engine/model", None).unwrap();
    assert_eq!(kinds.lock().unwrap().drain(..).collect::<Vec<_>>(), [(WriteKind::DONE, "model".to_string())]);
    assert!(files.lock().unwrap().contains_key("model/model.safetensors"));
    let mut opened = Model::open("host://rust-engine/model", None, &runtime).unwrap();
    assert_eq!(numbers(&mut opened, MATRIX), numbers(&mut trainer.model().unwrap(), MATRIX));

    let mut save = |fails_so: usize| {
        fails.store(fails_so, Ordering::Relaxed);
        trainer.save_to("host://rust-engine/other", None)
    };
    let error = save(1).unwrap_err();
    assert_eq!(
        (error.status(), error.source().unwrap().to_string().as_str()),
        (Status::E_CALLBACK, "the disk is full")
    );
    assert_eq!(panic_of(|| save(2)), "in a file");
    assert_eq!(*kinds.lock().unwrap(), vec![(WriteKind::DROPPED, "other".to_string()); 2]);
    save(0).unwrap();
}

#[test]
fn adapters() {
    let folder = Folder::new();
    let keys = [("use_peft", "true"), ("lora_r", "2"), ("max_steps", "1"), ("lora_target_modules", "all-linear")];
    let mut trainer = trainer(&folder, &keys);
    trainer.train(|_| ()).unwrap();
    let path = folder.join("adapter");
    trainer.save_to(&path, None).unwrap();
    let mut own = trainer.model().unwrap();
    own.add_adapter("other", &path).unwrap();
    let with = options(&[("generate.adapter", "other"), ("generate.max_new_tokens", "1")]);
    own.generator(None).unwrap().generate(&["the"], &with, |_| ()).unwrap();
    own.remove_adapter("other").unwrap();
    assert_eq!(own.use_adapter("default").unwrap_err().status(), Status::E_UNSUPPORTED);

    let mut model = Model::open(MODEL, None, None).unwrap();
    model.add_adapter("mine", &path).unwrap();
    model.use_adapter("mine").unwrap();
    model.merge_adapter("mine").unwrap();
    model.merge_adapter(None).unwrap();
    model.use_adapter(None).unwrap();
    model.remove_adapter("mine").unwrap();
    assert_eq!(model.use_adapter("mine").unwrap_err().status(), Status::E_NOT_FOUND);
}

#[test]
fn scores() {
    let folder = Folder::new();
    let pairs = rows(&[r#"{"prompt": "one", "chosen": " two", "rejected": " four"}"#; 2]);
    let keys = config(&folder, &[("method", "reward"), ("max_steps", "1")]);
    let mut trainer = Trainer::new(&keys, &pairs, None, None).unwrap();
    trainer.train(|_| ()).unwrap();
    trainer.save(None).unwrap();
    let mut scorer = Model::open(folder.join("out"), None, None).unwrap();
    let both = scorer.score(&["one two", "one\0three"], TextForm::ANSWER, None).unwrap();
    let one = scorer.score(&["one two".to_string()], TextForm::ANSWER, None).unwrap();
    assert!((both[0] - one[0]).abs() < 1e-5 && (both[0] - both[1]).abs() > 1e-5);
}
