//! Compiled code, kept from one process to the next.
//!
//! A file of compiled code is native code: loading one that somebody else wrote is running it. So what is loaded must
//! carry a keyed digest that only this host can have made, over the code, the engine's configuration and the component.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Bytes of the keyed digest in front.
const TAG: usize = 32;

/// A header's length is written in so many bytes.
const LENGTH: usize = 4;

fn tag(key: &[u8; 32], binding: &[u8], rest: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&(binding.len() as u64).to_le_bytes());
    hasher.update(binding);
    hasher.update(rest);
    hasher.finalize()
}

/// Puts header and code together under a keyed digest that also covers `binding`.
pub fn seal(header: &[u8], native: &[u8], key: &[u8; 32], binding: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0; TAG];
    sealed.extend_from_slice(&(header.len() as u32).to_le_bytes());
    sealed.extend_from_slice(header);
    sealed.extend_from_slice(native);
    let tag = tag(key, binding, &sealed[TAG..]);
    sealed[..TAG].copy_from_slice(tag.as_bytes());
    sealed
}

/// Takes apart what [`seal`] made with the same key and binding; `None` for anything else.
pub fn unseal(engine: &Engine, sealed: &[u8], key: &[u8; 32], binding: &[u8]) -> Option<(Vec<u8>, Component)> {
    let (given, rest) = sealed.split_first_chunk::<TAG>()?;
    // `blake3::Hash` compares in constant time.
    if tag(key, binding, rest) != *given {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
    let (header, native) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    // SAFETY: the bytes are `Component::serialize`'s own: only `seal` makes a valid tag, and it is called with nothing
    // else, under a key that never leaves this host. Wasmtime itself refuses code of another version or configuration.
    let component = unsafe { Component::deserialize(engine, native) }.ok()?;
    Some((header.to_vec(), component))
}
