//! Randomness. What WASI calls insecure comes from the same place: all of it is on the tape.

use lazaret_gate::limits::MAX_RANDOM;
use lazaret_gate::{Answer, Effect};

use super::{Asking, Interface, Kind};
use crate::imports::WrongAnswer;
use crate::limits::MAX_RANDOM_CALL;

const ASKS: Kind = Kind::Asks("random.bytes");

fn draw(host: &mut Asking<'_>, len: u32) -> wasmtime::Result<Vec<u8>> {
    match host.need(Effect::RandomBytes { len })? {
        Answer::Random(bytes) if bytes.0.len() == len as usize => Ok(bytes.0),
        _ => Err(WrongAnswer.into()),
    }
}

fn word(host: &mut Asking<'_>, (): ()) -> wasmtime::Result<(u64,)> {
    let bytes = draw(host, 8)?;
    Ok((u64::from_le_bytes(bytes.try_into().map_err(|_| WrongAnswer)?),))
}

/// As many asks as it takes: one carries little.
fn bytes(host: &mut Asking<'_>, (len,): (u64,)) -> wasmtime::Result<(Vec<u8>,)> {
    if len > MAX_RANDOM_CALL {
        return Err(wasmtime::Error::msg(format!("{len} random bytes wanted at once; the most is {MAX_RANDOM_CALL}")));
    }
    let mut all = Vec::new();
    while (all.len() as u64) < len {
        let left = len - all.len() as u64;
        all.extend(draw(host, left.min(u64::from(MAX_RANDOM)) as u32)?);
    }
    Ok((all,))
}

pub(super) fn random(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("get-random-bytes", ASKS, bytes)?;
    interface.asking("get-random-u64", ASKS, word)
}

pub(super) fn insecure(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("get-insecure-random-bytes", ASKS, bytes)?;
    interface.asking("get-insecure-random-u64", ASKS, word)
}

pub(super) fn insecure_seed(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("insecure-seed", ASKS, |host, (): ()| {
        let bytes: [u8; 16] = draw(host, 16)?.try_into().map_err(|_| WrongAnswer)?;
        let seed = u128::from_le_bytes(bytes);
        Ok(((seed as u64, (seed >> 64) as u64),))
    })
}
