//! Tensors as DLPack has them.

use crate::call::call;
use crate::{Error, Result, Status};
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::{fmt, mem, slice};
use trl_sys as sys;

/// The type of a number, as DLPack has it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DType {
    /// 0: integer, 1: unsigned integer, 2: IEEE floating point, 4: bfloat ...
    pub code: u8,
    pub bits: u8,
    /// How many numbers an element has: 1.
    pub lanes: u16,
}

/// As in the list of a model's tensors: "float32", "bfloat16" ...
impl fmt::Display for DType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (["int", "uint", "float", "opaque", "bfloat", "complex"].get(usize::from(self.code)), self.lanes) {
            (Some(name), 1) => write!(out, "{name}{}", self.bits),
            _ => write!(out, "dlpack({}, {}, {})", self.code, self.bits, self.lanes),
        }
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A number of a tensor.
///
/// # Safety
///
/// All bits of the type `DTYPE` are a value of it, and it has their size.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: DType;
}

/// A bfloat16: the upper half of a float32.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bf16(pub u16);

impl From<Bf16> for f32 {
    fn from(number: Bf16) -> f32 {
        f32::from_bits(u32::from(number.0) << 16)
    }
}

/// The bits of a float16.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct F16(pub u16);

macro_rules! elements {
    ($($name:ident: $code:literal),*) => {
        $(unsafe impl Element for $name {
            const DTYPE: DType = DType { code: $code, bits: 8 * mem::size_of::<$name>() as u8, lanes: 1 };
        })*
    };
}
elements! {
    i8: 0, i16: 0, i32: 0, i64: 0, u8: 1, u16: 1, u32: 1, u64: 1, f32: 2, f64: 2, F16: 2, Bf16: 4
}

/// DLManagedTensorVersioned.
#[repr(C)]
struct Managed {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    dtype: DType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

const VERSION: [u32; 2] = [1, 0];
const CPU: i32 = 1;
const READ_ONLY: u64 = 1;

/// A tensor of the host begins with what DLPack knows of it.
#[repr(C)]
struct Own<T> {
    managed: Managed,
    shape: Vec<i64>,
    strides: Vec<i64>,
    values: Vec<T>,
}

unsafe extern "C" fn delete<T>(tensor: *mut Managed) {
    drop(Box::from_raw(tensor.cast::<Own<T>>()));
}

/// How many numbers a shape has.
fn count_of(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size.try_into().ok()?))
}

/// How many numbers further the next one of each dimension is, the last dimension innermost.
fn strides_of(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].wrapping_mul(shape[i]);
    }
    strides
}

/// Numbers with a shape, of the library or of the host. They are freed with it.
pub struct Tensor(NonNull<Managed>);

// DLPack: any thread may call the deleter. Who owns a tensor owns its memory, or has promised that it stays as it is.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Calls a function whose last parameters are a tensor that it makes and `trl_error **`.
    pub(crate) fn create(
        function: impl FnOnce(*mut *mut sys::DLManagedTensorVersioned, *mut *mut sys::trl_error) -> sys::trl_status,
    ) -> Result<Tensor> {
        let mut made = ptr::null_mut();
        let result = call(|error| function(&mut made, error));
        match NonNull::new(made.cast()).map(Tensor) {
            Some(tensor) => result.map(|_| tensor),
            None => Err(result.err().unwrap_or_else(|| Error::new(Status::E_INTERNAL, "there is no tensor"))),
        }
    }

    /// A tensor of the host's numbers, the last dimension innermost.
    pub fn new<T: Element>(shape: &[i64], values: Vec<T>) -> Result<Tensor> {
        if count_of(shape) != Some(values.len()) {
            let message = format!("a tensor of the shape {shape:?} does not have {} numbers", values.len());
            return Err(Error::new(Status::E_INVALID_ARGUMENT, message));
        }
        let managed = Managed {
            version: VERSION,
            context: ptr::null_mut(),
            deleter: Some(delete::<T>),
            flags: 0,
            data: ptr::null_mut(),
            device: [CPU, 0],
            ndim: shape.len() as i32,
            dtype: T::DTYPE,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let mut own = Box::new(Own { managed, shape: shape.to_vec(), strides: strides_of(shape), values });
        own.managed.data = own.values.as_mut_ptr().cast();
        own.managed.shape = own.shape.as_mut_ptr();
        own.managed.strides = own.strides.as_mut_ptr();
        Ok(Tensor(NonNull::from(Box::leak(own)).cast()))
    }

    /// Takes a tensor of DLPack, as another crate gives it.
    ///
    /// # Safety
    ///
    /// It points to a valid `DLManagedTensorVersioned` of version 1, which any thread may free, and whose numbers
    /// nothing else writes.
    pub unsafe fn from_dlpack(tensor: NonNull<sys::DLManagedTensorVersioned>) -> Tensor {
        Tensor(tensor.cast())
    }

    /// Gives the tensor to another crate, which calls its deleter.
    pub fn into_dlpack(self) -> NonNull<sys::DLManagedTensorVersioned> {
        mem::ManuallyDrop::new(self).0.cast()
    }

    pub(crate) fn get(&self) -> *mut sys::DLManagedTensorVersioned {
        self.0.as_ptr().cast()
    }

    fn managed(&self) -> &Managed {
        unsafe { self.0.as_ref() }
    }

    pub fn dtype(&self) -> DType {
        self.managed().dtype
    }

    pub fn shape(&self) -> &[i64] {
        unsafe { self.sizes(self.managed().shape) }
    }

    /// The kind of device that the numbers are on, and its number; the CPU is `(1, 0)`.
    pub fn device(&self) -> (i32, i32) {
        let [kind, number] = self.managed().device;
        (kind, number)
    }

    /// The numbers in their order; `None` if they are of another type, not in this memory or not contiguous.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let (start, count) = self.values::<T>()?;
        Some(unsafe { slice::from_raw_parts(start, count) })
    }

    /// The same to change them; `None` also for those that are only read.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        let (start, count) = self.values::<T>()?;
        (self.managed().flags & READ_ONLY == 0).then(|| unsafe { slice::from_raw_parts_mut(start, count) })
    }

    fn values<T: Element>(&self) -> Option<(*mut T, usize)> {
        let tensor = self.managed();
        let count = count_of(self.shape())?;
        if tensor.dtype != T::DTYPE || tensor.device[0] != CPU {
            return None;
        }
        if count == 0 {
            return Some((NonNull::dangling().as_ptr(), 0));
        }
        let start = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize).cast::<T>();
        (self.is_contiguous() && start as usize % mem::align_of::<T>() == 0).then_some((start, count))
    }

    fn is_contiguous(&self) -> bool {
        let strides = self.managed().strides;
        let sizes_and_strides = || self.shape().iter().zip(unsafe { self.sizes(strides) });
        strides.is_null()
            || sizes_and_strides()
                .zip(strides_of(self.shape()))
                .all(|((&size, &stride), own)| size == 1 || stride == own)
    }

    unsafe fn sizes(&self, start: *const i64) -> &[i64] {
        match self.managed().ndim {
            0 => &[],
            count => slice::from_raw_parts(start, count as usize),
        }
    }
}

/// A tensor of one dimension.
impl<T: Element> From<Vec<T>> for Tensor {
    fn from(values: Vec<T>) -> Tensor {
        Tensor::new(&[values.len() as i64], values).expect("as many values as the shape says")
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tensor({}{:?})", self.dtype(), self.shape())
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Some(deleter) = self.managed().deleter {
            unsafe { deleter(self.0.as_ptr()) }
        }
    }
}
