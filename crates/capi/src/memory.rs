//! Every access to memory of the caller: texts, arrays and rows, by their address and length.
//!
//! Null pointers, addresses that are not aligned and lengths beyond any memory can be told, and are errors. The rest
//! is a promise of the caller, which the headers state for each function.

use std::{
    ffi::{CStr, c_char},
    ptr, slice,
};

use crate::error::Failure;

/// Types of which every bit pattern is a value.
pub(crate) trait Plain: Copy + 'static {}

impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for crate::api::UnskewCapture {}

fn check<T>(address: *const T, len: usize, name: &str) -> Result<(), Failure> {
    if address.is_null() {
        return Err(Failure::argument(format!("`{name}` is null")));
    }
    if !address.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned to {} bytes", align_of::<T>())));
    }
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Failure::argument(format!("`{name}` cannot have {len} elements")));
    }
    Ok(())
}

/// `len` elements at `address`. With none, the address may be anything.
///
/// # Safety
///
/// There are `len` elements, which have values and nobody changes during `'a`.
pub(crate) unsafe fn array<'a, T: Copy>(
    address: *const T,
    len: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(address, len, name)?;
    // SAFETY: it is neither null nor misaligned, and not longer than memory can be. The elements are there by the
    // caller's promise.
    Ok(unsafe { slice::from_raw_parts(address, len) })
}

/// `len` elements at `address` to write to, which are zero now.
///
/// # Safety
///
/// There is room for `len` elements, which nobody else reads or writes during `'a`.
pub(crate) unsafe fn room<'a, T: Plain>(
    address: *mut T,
    len: usize,
    name: &str,
) -> Result<&'a mut [T], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(address, len, name)?;
    // SAFETY: as in `array`. Zeros are written first, so that the elements have values, and zero is a value of `T`,
    // which is `Plain`.
    Ok(unsafe {
        address.write_bytes(0, len);
        slice::from_raw_parts_mut(address, len)
    })
}

/// The text at `address`, which ends with a zero.
///
/// # Safety
///
/// There is a zero, and nobody changes the text during `'a`.
pub(crate) unsafe fn text<'a>(address: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if address.is_null() {
        return Err(Failure::argument(format!("`{name}` is null")));
    }
    // SAFETY: it is not null, and the zero at its end is the caller's promise.
    utf8(unsafe { CStr::from_ptr(address) }.to_bytes(), name)
}

pub(crate) fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes)
        .map_err(|error| Failure::argument(format!("`{name}` is not UTF-8 at byte {}", error.valid_up_to())))
}

/// Writes a value to `address`, whose old value is not looked at.
///
/// # Safety
///
/// There is room for a `T`, which nobody else reads or writes now.
pub(crate) unsafe fn write<T>(address: *mut T, value: T, name: &str) -> Result<(), Failure> {
    check(address, 1, name)?;
    // SAFETY: it is neither null nor misaligned, and the room is the caller's promise.
    unsafe { address.write(value) };
    Ok(())
}

/// A value at `address`.
///
/// # Safety
///
/// There is a `T`, which nobody changes now.
pub(crate) unsafe fn read<T: Copy>(address: *const T, name: &str) -> Result<T, Failure> {
    check(address, 1, name)?;
    // SAFETY: it is neither null nor misaligned, and the value is the caller's promise.
    Ok(unsafe { ptr::read(address) })
}

/// Writes as much of `text` as there is room for, and a zero after it.
///
/// # Safety
///
/// `address` is null, or there is room for `len` bytes, which nobody else reads or writes now.
pub(crate) unsafe fn write_text(address: *mut c_char, len: usize, text: &str) {
    // SAFETY: the promise is the same; a `c_char` is a byte.
    let room = unsafe { room(address.cast::<u8>(), len, "error_string") };
    if let Ok([room @ .., _]) = room {
        let mut end = room.len().min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        room[..end].copy_from_slice(&text.as_bytes()[..end]);
    }
}
