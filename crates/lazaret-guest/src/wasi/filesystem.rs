//! A filesystem without directories. Toolchains link against these functions whether a program opens files or not; as
//! nobody can hold a descriptor, none but [`preopens`] and `filesystem-error-code` can be reached.

use wasmtime::component::{ComponentType, Lift, Lower, Resource, flags};

use super::clocks::Datetime;
use super::io::{InputStream, IoError, OutputStream};
use super::table::Kept;
use super::{Host, Interface};

/// There never is one.
pub(super) struct Descriptor;

/// There never is one.
struct DirectoryEntryStream;

impl Kept for Descriptor {}
impl Kept for DirectoryEntryStream {}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the guest's type has them; we answer with one")]
enum ErrorCode {
    #[component(name = "access")]
    Access,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "already")]
    Already,
    #[component(name = "bad-descriptor")]
    BadDescriptor,
    #[component(name = "busy")]
    Busy,
    #[component(name = "deadlock")]
    Deadlock,
    #[component(name = "quota")]
    Quota,
    #[component(name = "exist")]
    Exist,
    #[component(name = "file-too-large")]
    FileTooLarge,
    #[component(name = "illegal-byte-sequence")]
    IllegalByteSequence,
    #[component(name = "in-progress")]
    InProgress,
    #[component(name = "interrupted")]
    Interrupted,
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "io")]
    Io,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "loop")]
    Loop,
    #[component(name = "too-many-links")]
    TooManyLinks,
    #[component(name = "message-size")]
    MessageSize,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "no-device")]
    NoDevice,
    #[component(name = "no-entry")]
    NoEntry,
    #[component(name = "no-lock")]
    NoLock,
    #[component(name = "insufficient-memory")]
    InsufficientMemory,
    #[component(name = "insufficient-space")]
    InsufficientSpace,
    #[component(name = "not-directory")]
    NotDirectory,
    #[component(name = "not-empty")]
    NotEmpty,
    #[component(name = "not-recoverable")]
    NotRecoverable,
    #[component(name = "unsupported")]
    Unsupported,
    #[component(name = "no-tty")]
    NoTty,
    #[component(name = "no-such-device")]
    NoSuchDevice,
    #[component(name = "overflow")]
    Overflow,
    #[component(name = "not-permitted")]
    NotPermitted,
    #[component(name = "pipe")]
    Pipe,
    #[component(name = "read-only")]
    ReadOnly,
    #[component(name = "invalid-seek")]
    InvalidSeek,
    #[component(name = "text-file-busy")]
    TextFileBusy,
    #[component(name = "cross-device")]
    CrossDevice,
}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the guest's type has them; nobody is told any")]
enum DescriptorType {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "block-device")]
    BlockDevice,
    #[component(name = "character-device")]
    CharacterDevice,
    #[component(name = "directory")]
    Directory,
    #[component(name = "fifo")]
    Fifo,
    #[component(name = "symbolic-link")]
    SymbolicLink,
    #[component(name = "regular-file")]
    RegularFile,
    #[component(name = "socket")]
    Socket,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the guest's type has it; nobody reads it")]
enum Advice {
    #[component(name = "normal")]
    Normal,
    #[component(name = "sequential")]
    Sequential,
    #[component(name = "random")]
    Random,
    #[component(name = "will-need")]
    WillNeed,
    #[component(name = "dont-need")]
    DontNeed,
    #[component(name = "no-reuse")]
    NoReuse,
}

flags! {
    DescriptorFlags {
        #[component(name = "read")]
        const READ;
        #[component(name = "write")]
        const WRITE;
        #[component(name = "file-integrity-sync")]
        const FILE_INTEGRITY_SYNC;
        #[component(name = "data-integrity-sync")]
        const DATA_INTEGRITY_SYNC;
        #[component(name = "requested-write-sync")]
        const REQUESTED_WRITE_SYNC;
        #[component(name = "mutate-directory")]
        const MUTATE_DIRECTORY;
    }
}

flags! {
    PathFlags {
        #[component(name = "symlink-follow")]
        const SYMLINK_FOLLOW;
    }
}

flags! {
    OpenFlags {
        #[component(name = "create")]
        const CREATE;
        #[component(name = "directory")]
        const DIRECTORY;
        #[component(name = "exclusive")]
        const EXCLUSIVE;
        #[component(name = "truncate")]
        const TRUNCATE;
    }
}

#[derive(ComponentType, Lift)]
#[component(variant)]
#[expect(dead_code, reason = "the guest's type has it; nobody reads it")]
enum NewTimestamp {
    #[component(name = "no-change")]
    NoChange,
    #[component(name = "now")]
    Now,
    #[component(name = "timestamp")]
    Timestamp(Datetime),
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct DescriptorStat {
    #[component(name = "type")]
    kind: DescriptorType,
    #[component(name = "link-count")]
    link_count: u64,
    size: u64,
    #[component(name = "data-access-timestamp")]
    accessed: Option<Datetime>,
    #[component(name = "data-modification-timestamp")]
    modified: Option<Datetime>,
    #[component(name = "status-change-timestamp")]
    changed: Option<Datetime>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct DirectoryEntry {
    #[component(name = "type")]
    kind: DescriptorType,
    name: String,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct MetadataHash {
    lower: u64,
    upper: u64,
}

type Of = Resource<Descriptor>;

/// Whatever it was.
fn unsupported<P, R>(_: &mut Host<'_>, _: P) -> wasmtime::Result<(Result<R, ErrorCode>,)> {
    Ok((Err(ErrorCode::Unsupported),))
}

pub(super) fn preopens(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-directories", |_, (): ()| Ok((Vec::<(Resource<Descriptor>, String)>::new(),)))
}

pub(super) fn types(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<Descriptor>("descriptor")?;
    interface.resource::<DirectoryEntryStream>("directory-entry-stream")?;
    define_contents(interface)?;
    define_metadata(interface)?;
    define_directories(interface)?;
    interface.local("filesystem-error-code", |_, (_,): (Resource<IoError>,)| Ok((None::<ErrorCode>,)))
}

fn define_contents(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("[method]descriptor.read-via-stream", unsupported::<(Of, u64), Resource<InputStream>>)?;
    interface.local("[method]descriptor.write-via-stream", unsupported::<(Of, u64), Resource<OutputStream>>)?;
    interface.local("[method]descriptor.append-via-stream", unsupported::<(Of,), Resource<OutputStream>>)?;
    interface.local("[method]descriptor.advise", unsupported::<(Of, u64, u64, Advice), ()>)?;
    interface.local("[method]descriptor.sync-data", unsupported::<(Of,), ()>)?;
    interface.local("[method]descriptor.sync", unsupported::<(Of,), ()>)?;
    interface.local("[method]descriptor.set-size", unsupported::<(Of, u64), ()>)?;
    interface.local("[method]descriptor.read", unsupported::<(Of, u64, u64), (Vec<u8>, bool)>)?;
    interface.local("[method]descriptor.write", unsupported::<(Of, Vec<u8>, u64), u64>)
}

fn define_metadata(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Times = (Of, NewTimestamp, NewTimestamp);
    type TimesAt = (Of, PathFlags, String, NewTimestamp, NewTimestamp);
    interface.local("[method]descriptor.get-flags", unsupported::<(Of,), DescriptorFlags>)?;
    interface.local("[method]descriptor.get-type", unsupported::<(Of,), DescriptorType>)?;
    interface.local("[method]descriptor.set-times", unsupported::<Times, ()>)?;
    interface.local("[method]descriptor.set-times-at", unsupported::<TimesAt, ()>)?;
    interface.local("[method]descriptor.stat", unsupported::<(Of,), DescriptorStat>)?;
    interface.local("[method]descriptor.stat-at", unsupported::<(Of, PathFlags, String), DescriptorStat>)?;
    interface.local("[method]descriptor.is-same-object", |_, (_, _): (Of, Of)| Ok((false,)))?;
    interface.local("[method]descriptor.metadata-hash", unsupported::<(Of,), MetadataHash>)?;
    interface.local("[method]descriptor.metadata-hash-at", unsupported::<(Of, PathFlags, String), MetadataHash>)
}

fn define_directories(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Link = (Of, PathFlags, String, Of, String);
    type Open = (Of, PathFlags, String, OpenFlags, DescriptorFlags);
    type Entries = (Resource<DirectoryEntryStream>,);
    interface.local("[method]descriptor.read-directory", unsupported::<(Of,), Resource<DirectoryEntryStream>>)?;
    interface.local("[method]descriptor.create-directory-at", unsupported::<(Of, String), ()>)?;
    interface.local("[method]descriptor.link-at", unsupported::<Link, ()>)?;
    interface.local("[method]descriptor.open-at", unsupported::<Open, Of>)?;
    interface.local("[method]descriptor.readlink-at", unsupported::<(Of, String), String>)?;
    interface.local("[method]descriptor.remove-directory-at", unsupported::<(Of, String), ()>)?;
    interface.local("[method]descriptor.rename-at", unsupported::<(Of, String, Of, String), ()>)?;
    interface.local("[method]descriptor.symlink-at", unsupported::<(Of, String, String), ()>)?;
    interface.local("[method]descriptor.unlink-file-at", unsupported::<(Of, String), ()>)?;
    interface
        .local("[method]directory-entry-stream.read-directory-entry", unsupported::<Entries, Option<DirectoryEntry>>)
}
