use std::borrow::Cow;

use super::{ObjectKind, ObjectUse};
use crate::{
    BufferAddress, CaptureMode, Choice, CopyApi, DEFAULT_STREAM, DeviceAttribute, Dtype,
    HostFuncApi, Memory, Name, RandKind, StreamKind, choice::choices,
};

/// Reader, implemented in the crate `case`, for the keys below a verb, for example for `to` below `copy`. If a value is
/// missing or wrong, a method reports the mistake and returns `None`. If the verb has a single value in place of a
/// mapping, every key refers to that value.
pub trait Keys {
    /// Returns the name of a stream; the null stream if the key is missing.
    fn stream(&mut self, key: &str) -> Option<Name>;
    /// Returns the name under `key`, which the call gives to a stream that it creates.
    fn new_stream(&mut self, key: &str) -> Option<Name>;
    /// Returns the name under `key` of an object of kind `thing`, which is neither a stream nor a buffer.
    fn thing(&mut self, key: &str, thing: ObjectKind) -> Option<Name>;
    /// Returns the name under `key`, which must be the name of a buffer that the case declares.
    fn buffer(&mut self, key: &str) -> Option<Name>;
    /// Returns the text under a key.
    fn text(&mut self, key: &str) -> Option<String>;
    /// Returns the whole number under `key`. If the key is missing, returns `default`; without a default, this is a
    /// mistake.
    fn number<T: TryFrom<u64>>(&mut self, key: &str, default: Option<T>) -> Option<T>;
    /// Returns a flag; false if the key is missing.
    fn flag(&mut self, key: &str) -> Option<bool>;
    /// Returns the value of `T` whose keyword is under `key`. If the key is missing, returns `default`; without a
    /// default, this is a mistake.
    fn choice<T: Choice>(&mut self, key: &str, default: Option<T>) -> Option<T>;
    /// Reports a mistake if the verb has a value.
    fn nothing(&mut self);
}

/// One value of a call, in the form in which a case file contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Name of the field, which is also the YAML key of the value in a case file.
    pub key: &'static str,
    /// The value as text, as it is written in the case file.
    pub value: Cow<'a, str>,
    /// Kind of value that the field contains.
    pub value_type: FieldKind,
    /// True if the value is the default, so that the key can be omitted.
    pub usual: bool,
}

/// Kind of value in a [`Field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Name of an object, and how the call uses the object.
    Name(ObjectKind, ObjectUse),
    /// Name of a buffer, with an offset in bytes. The case file contains the offset under a second key.
    Place(u64),
    /// Arbitrary text.
    Text,
    /// A number or a flag.
    Number,
    /// A keyword of a [`Choice`].
    Word,
}

impl<'a> Field<'a> {
    pub(super) fn name(
        key: &'static str,
        name: &'a str,
        thing: ObjectKind,
        role: ObjectUse,
    ) -> Self {
        let usual = thing == ObjectKind::Stream && name == DEFAULT_STREAM;
        Field { key, value: name.into(), value_type: FieldKind::Name(thing, role), usual }
    }

    pub(super) fn place(key: &'static str, place: &'a BufferAddress) -> Self {
        let (value, holds) = (place.buffer.as_str().into(), FieldKind::Place(place.offset));
        Field { key, value, value_type: holds, usual: false }
    }

    pub(super) fn text(key: &'static str, text: &'a str) -> Self {
        Field { key, value: text.into(), value_type: FieldKind::Text, usual: false }
    }

    pub(super) fn plain(
        key: &'static str,
        holds: FieldKind,
        value: impl ToString,
        usual: bool,
    ) -> Self {
        Field { key, value: value.to_string().into(), value_type: holds, usual }
    }
}

/// Ways to compare the number that a call returns with the first number that the same kind of call returned in the
/// trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstValueCheck {
    /// At least as many bytes of device memory are free as at the first query.
    Returned,
    /// Exactly as many bytes of device memory are free as at the first query.
    Unchanged,
    /// The measured interval is at most 20 times the first one, plus one second.
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
