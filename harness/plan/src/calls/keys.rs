//! The values of a verb's keys, as they are read and as they are written.

use std::borrow::Cow;

use super::{NamedAs, Thing};
use crate::{
    CaptureMode, Choice, CopyApi, DEFAULT_STREAM, DeviceAttribute, Dtype, HostFuncApi, Memory,
    Name, Place, RandKind, StreamKind, choice::choices,
};

/// Where the values of a verb's keys come from; whoever gives them tells of those that it cannot give. Of a verb
/// that takes no mapping, its one value stands under any key.
pub trait Keys {
    /// A stream; the null stream where the key is left out.
    fn stream(&mut self, key: &str) -> Option<Name>;
    /// A stream that the call makes.
    fn new_stream(&mut self, key: &str) -> Option<Name>;
    /// The name of anything else.
    fn thing(&mut self, key: &str, thing: Thing) -> Option<Name>;
    /// A buffer of the case.
    fn buffer(&mut self, key: &str) -> Option<Name>;
    /// A text.
    fn text(&mut self, key: &str) -> Option<String>;
    /// A whole number; without a default the key is needed.
    fn number<T: TryFrom<u64>>(&mut self, key: &str, default: Option<T>) -> Option<T>;
    /// A flag; false where the key is left out.
    fn flag(&mut self, key: &str) -> Option<bool>;
    /// One of a few words; without a default the key is needed.
    fn choice<T: Choice>(&mut self, key: &str, default: Option<T>) -> Option<T>;
    /// Tells of a value where there must be none.
    fn nothing(&mut self);
}

/// A field of a call that holds one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, which is that of its key too.
    pub key: &'static str,
    /// Its value.
    pub value: Cow<'a, str>,
    /// What sort of value.
    pub holds: FieldKind,
    /// Whether it means the same to leave the key out.
    pub usual: bool,
}

/// What sort of value a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The name of a thing, and what that is to the call.
    Name(Thing, NamedAs),
    /// The name of a buffer, from this byte on; the offset has a key of its own.
    Place(u64),
    /// Any text.
    Text,
    /// A number or a flag.
    Number,
    /// One of a few words.
    Word,
}

impl<'a> Field<'a> {
    pub(super) fn name(key: &'static str, name: &'a str, thing: Thing, role: NamedAs) -> Self {
        let usual = thing == Thing::Stream && name == DEFAULT_STREAM;
        Field { key, value: name.into(), holds: FieldKind::Name(thing, role), usual }
    }

    pub(super) fn place(key: &'static str, place: &'a Place) -> Self {
        let (value, holds) = (place.buffer.as_str().into(), FieldKind::Place(place.offset));
        Field { key, value, holds, usual: false }
    }

    pub(super) fn text(key: &'static str, text: &'a str) -> Self {
        Field { key, value: text.into(), holds: FieldKind::Text, usual: false }
    }

    pub(super) fn plain(
        key: &'static str,
        holds: FieldKind,
        value: impl ToString,
        usual: bool,
    ) -> Self {
        Field { key, value: value.to_string().into(), holds, usual }
    }
}

/// What a number may have to be beside the one that such a step gave first in the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstValueCheck {
    /// At least as many bytes of device memory are free.
    Returned,
    /// As many are free.
    Unchanged,
    /// It took not much longer.
    Steady,
}

choices! {
    FirstValueCheck { Returned "returned" Unchanged "unchanged" Steady "steady" }
    Memory {
        Device "device"
        DevicePitched "device.pitched"
        DeviceAsync "device.async"
        Managed "managed"
        HostPageable "host.pageable"
        HostPinned "host.pinned"
        HostRegistered "host.registered"
    }
    StreamKind { Blocking "blocking" NonBlocking "non_blocking" }
    CopyApi {
        Memcpy "memcpy"
        MemcpyAsync "memcpy_async"
        MemcpyWithStream "memcpy_with_stream"
        MemcpyDirected "memcpy_directed"
    }
    HostFuncApi { LaunchHostFunc "launch_host_func" AddCallback "add_callback" }
    CaptureMode { Global "global" ThreadLocal "thread_local" Relaxed "relaxed" }
    RandKind { Xorwow "xorwow" Mrg32k3a "mrg32k3a" Philox "philox" }
    DeviceAttribute {
        WarpSize "warp_size"
        MaxThreadsPerBlock "max_threads_per_block"
        MultiprocessorCount "multiprocessor_count"
    }
    Dtype { F32 "f32" F16 "f16" Bf16 "bf16" F64 "f64" I8 "i8" I32 "i32" }
}
