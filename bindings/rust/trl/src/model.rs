//! Models, of files and of trainers: to describe, score, convert, save, generate with, and read and write tensors of.

use crate::call::{ask_text, c_path, c_text, call};
use crate::config;
use crate::constants::TensorForm;
use crate::generate::texts_of;
use crate::handle::Handle;
use crate::runtime::pointer_of_runtime;
use crate::{Config, Generator, Result, Runtime, Tensor, TextForm, Tokenizer};
use std::path::Path;
use std::ptr;
use trl_sys as sys;

/// Converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory.
pub fn convert<'a>(
    path: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: impl Into<Option<&'a Config>>,
    runtime: impl Into<Option<&'a Runtime>>,
) -> Result<()> {
    let (path, target) = (c_path(path.as_ref())?, c_path(target.as_ref())?);
    let (options, runtime) = (config::pointer_of(options.into()), pointer_of_runtime(runtime.into()));
    call(|error| unsafe { sys::trl_model_convert(runtime, path.as_ptr(), target.as_ptr(), options, error) })?;
    Ok(())
}

/// A Hugging Face directory, a GGUF file, or what a trainer trains (`Trainer::model`).
pub struct Model {
    pub(crate) handle: Handle<sys::trl_model>,
}

impl Model {
    pub fn open<'a>(
        path: impl AsRef<Path>,
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Model> {
        let path = c_path(path.as_ref())?;
        let (options, runtime) = (config::pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle =
            Handle::create(|out, error| unsafe { sys::trl_model_open(runtime, path.as_ptr(), options, out, error) })?;
        Ok(Model { handle })
    }

    /// The number of parameters and the model's config.json, as a JSON object.
    pub fn describe(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_model_describe(self.handle.get(), out, error) })
    }

    /// The tensors, with those of adapters, as a JSON list of objects of name, shape, dtype, stored, trained, gradient.
    pub fn tensors(&mut self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_model_get_tensors(self.handle.get(), out, error) })
    }

    /// A copy of a tensor.
    pub fn read_tensor(&mut self, name: &str) -> Result<Tensor> {
        self.read(name, TensorForm::COPY)
    }

    /// A copy of a tensor's gradient, between the two halves of a step.
    pub fn read_gradient(&mut self, name: &str) -> Result<Tensor> {
        self.read(name, TensorForm::GRADIENT)
    }

    /// A tensor's own memory, which stays readable; but its numbers are defined only until it changes.
    ///
    /// # Safety
    ///
    /// Slices of it end before the next write of the tensor, step of the trainer, or end of the model or trainer.
    pub unsafe fn view_tensor(&mut self, name: &str) -> Result<Tensor> {
        self.read(name, TensorForm::VIEW)
    }

    fn read(&mut self, name: &str, form: TensorForm) -> Result<Tensor> {
        let name = c_text(name)?;
        Tensor::create(|out, error| unsafe {
            sys::trl_model_read_tensor(self.handle.get(), name.as_ptr(), form.0, out, error)
        })
    }

    /// Gives a tensor the numbers of another one of the same shape and of any floating-point type.
    pub fn write_tensor(&mut self, name: &str, values: impl Into<Tensor>) -> Result<()> {
        let (name, values) = (c_text(name)?, values.into());
        call(|error| unsafe {
            let status = sys::trl_model_write_tensor(self.handle.get(), name.as_ptr(), values.get(), error);
            if status != sys::TRL_E_BUSY {
                std::mem::forget(values); // it was taken over
            }
            status
        })?;
        Ok(())
    }

    /// Adds a saved LoRA adapter, which is not used yet.
    pub fn add_adapter(&mut self, name: &str, path: impl AsRef<Path>) -> Result<()> {
        let (name, path) = (c_text(name)?, c_path(path.as_ref())?);
        call(|error| unsafe { sys::trl_model_add_adapter(self.handle.get(), name.as_ptr(), path.as_ptr(), error) })?;
        Ok(())
    }

    pub fn remove_adapter(&mut self, name: &str) -> Result<()> {
        let name = c_text(name)?;
        call(|error| unsafe { sys::trl_model_remove_adapter(self.handle.get(), name.as_ptr(), error) })?;
        Ok(())
    }

    /// Chooses the adapter to compute with; `None`: only the model.
    pub fn use_adapter<'a>(&mut self, name: impl Into<Option<&'a str>>) -> Result<()> {
        let name = name.into().map(c_text).transpose()?;
        call(|error| unsafe { sys::trl_model_use_adapter(self.handle.get(), crate::call::pointer_of(&name), error) })?;
        Ok(())
    }

    /// Merges an adapter into the weights; `None` undoes it.
    pub fn merge_adapter<'a>(&mut self, name: impl Into<Option<&'a str>>) -> Result<()> {
        let name = name.into().map(c_text).transpose()?;
        call(|error| unsafe {
            sys::trl_model_merge_adapter(self.handle.get(), crate::call::pointer_of(&name), error)
        })?;
        Ok(())
    }

    /// Saves the model, or its adapter (save.kind).
    pub fn save<'a>(&mut self, path: impl AsRef<Path>, options: impl Into<Option<&'a Config>>) -> Result<()> {
        let (path, options) = (c_path(path.as_ref())?, config::pointer_of(options.into()));
        call(|error| unsafe { sys::trl_model_save(self.handle.get(), path.as_ptr(), options, error) })?;
        Ok(())
    }

    /// The scores that a reward model gives to texts.
    pub fn score<'a>(
        &mut self,
        texts: &[impl AsRef<str>],
        form: TextForm,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<Vec<f32>> {
        let options = config::pointer_of(options.into());
        let mut scores = vec![0.0; texts.len()];
        let (texts, lengths) = texts_of(texts);
        call(|error| unsafe {
            let (texts, lengths, count) = (texts.as_ptr(), lengths.as_ptr(), texts.len());
            sys::trl_model_score(self.handle.get(), texts, lengths, count, form.0, options, scores.as_mut_ptr(), error)
        })?;
        Ok(scores)
    }

    /// A generator with this model, and with its own tokenizer or another one.
    pub fn generator<'a>(&self, tokenizer: impl Into<Option<&'a Tokenizer>>) -> Result<Generator> {
        let tokenizer = tokenizer.into().map_or(ptr::null_mut(), |tokenizer| tokenizer.handle.get());
        let handle = Handle::create(|out, error| unsafe {
            sys::trl_generator_create(self.handle.get(), tokenizer, out, error)
        })?;
        Ok(Generator { handle })
    }
}
