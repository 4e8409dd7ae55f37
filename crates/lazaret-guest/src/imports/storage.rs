use lazaret_gate::{Answer, Effect};
use wasmtime::component::{ComponentType, Lower};

use super::Interface;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Entry {
    value: Vec<u8>,
    version: u64,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct KeyInfo {
    key: String,
    version: u64,
    size: u64,
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "get",
        |(key,): (String,)| Effect::StorageGet { key },
        |answer| match answer {
            Answer::Entry(entry) => Some(entry.map(|entry| Entry { value: entry.value.0, version: entry.version })),
            _ => None,
        },
    )?;
    interface.import(
        "set",
        |(key, value): (String, Vec<u8>)| Effect::StorageSet { key, value: value.into() },
        |answer| if let Answer::Version(version) = answer { Some(version) } else { None },
    )?;
    interface.import(
        "delete",
        |(key,): (String,)| Effect::StorageDelete { key },
        |answer| if let Answer::Existed(existed) = answer { Some(existed) } else { None },
    )?;
    interface.import(
        "list",
        |(prefix, after, limit): (String, Option<String>, u32)| Effect::StorageList { prefix, after, limit },
        |answer| match answer {
            Answer::Keys(keys) => {
                let keys = keys.into_iter().map(|key| KeyInfo { key: key.key, version: key.version, size: key.size });
                Some(keys.collect::<Vec<_>>())
            }
            _ => None,
        },
    )
}
