//! All calls of a plan. Each call has one declaration, in a file per family; the macros of `table.rs` generate the
//! rest from it.
//!
//! A declaration lists the fields of the call with their roles and then these rows, all mandatory and in this
//! order:
//!
//! | row | meaning |
//! | --- | --- |
//! | `verb` | how a case writes the call: `keys`, `value`, `by_hand`, `block`, `part` or `none`; see below |
//! | `makes` | functions that the call needs; the status of the first counts. Names with a space are actions of the host |
//! | `in_capture` | what a captured stream does with the call, an [`InCapture`] |
//! | `by_hand` | the function that adds a node with the same effect to a graph, if there is one |
//! | `gives` | the value that the call returns, a [`ValueKind`] |
//! | `effect` | `nothing`, the `only` part that the call has, or all parts: see below |
//! | `words` | the name of the call in reports |
//! | `cpp` | how the call is written in C++, a [`Cpp`] |
//!
//! Roles of fields, after `as`:
//!
//! | role | meaning |
//! | --- | --- |
//! | `makes(T)`, `ends(T)`, `uses(T)` | the name of a [`Thing`] that the call creates, destroys or uses |
//! | `reads(W)`, `writes(W)`, `updates(W)` | a buffer, or a position in one; the host accesses it if W is `Host` |
//! | `arguments(kernel)`, `operands` | arguments of a kernel, operands of a matrix product |
//! | `given(function)` | arguments of a function of the table in `hip.rs` |
//! | `maybe(T)` | the name of a thing that the call may use |
//! | `node`, `block` | another call, or steps |
//! | `number`, `flag`, `choice`, `text` | a plain value; its default follows in brackets |
//! | `asynchronous` | selects whether the host continues before the work has completed |
//! | `plain` | any other value |
//!
//! Forms of verbs: `keys` has one key per field. `value` has the value of the only field, or no value. `by_hand`
//! has keys of its own, which the crate `case` reads and writes in a method of the verb's name; it reads a `block`
//! in such a method, too. A `part` is read under another verb and written by a method of its own. `none` has no
//! verb: only set-up, verification and teardown contain such calls.
//!
//! The parts of an effect are values of the types in `calls/effects.rs`: `memory` is an [`OnMemory`], `captures` an
//! [`OnCaptures`], `order` an [`OnOrder`]. `work_stream` is the stream that executes the work ([`WorkStream`]), and
//! `over` is the work that has completed when the call returns ([`CompletedOnReturn`]). The accesses of a call and
//! their order follow from these parts. `promise.rs` cites the sources.

use std::{collections::BTreeSet, fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};

pub use self::{
    effects::{Asynchronous, CompletedOnReturn, OnCaptures, OnMemory, OnOrder, WorkStream},
    keys::{Field, FieldKind, FirstValueCheck, Keys},
    plan::{Effect, InjectedFault, Library, PLAN_VERSION, Phase, Plan, Step},
};
use crate::{
    Arg, Box3d, CaptureMode, Choice, CopyApi, DeviceAttribute, Dtype, HipArg, HipRead, HostFuncApi,
    MatmulProblem, Memory, Name, Operands, Parameter, Place, RandKind,
};

#[macro_use]
mod table;
#[macro_use]
mod blas;
#[macro_use]
mod capture;
#[macro_use]
mod copies;
#[macro_use]
mod events;
#[macro_use]
mod graphs;
#[macro_use]
mod hip;
#[macro_use]
mod host;
#[macro_use]
mod kernels;
#[macro_use]
mod memory;
#[macro_use]
mod queries;
#[macro_use]
mod rng;
#[macro_use]
mod streams;
mod effects;
mod keys;
mod plan;

/// Kinds of named objects: buffers, and objects of HIP or of a library above HIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Thing {
    Buffer,
    Stream,
    Kernel,
    Event,
    Graph,
    Exec,
    Generator,
    Blaslt,
    Rocblas,
    Value,
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Thing::Buffer => "buffer",
            Thing::Stream => "stream",
            Thing::Kernel => "kernel",
            Thing::Event => "event",
            Thing::Graph => "graph",
            Thing::Exec => "executable graph",
            Thing::Generator => "generator",
            Thing::Blaslt => "hipBLASLt handle",
            Thing::Rocblas => "rocBLAS handle",
            Thing::Value => "value",
        })
    }
}

/// Use of a named object by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamedAs {
    /// Created by the call, if it succeeds.
    Made,
    /// Destroyed by the call, if it succeeds.
    Ended,
    /// Used by the call.
    Used,
    /// Buffer that the call reads.
    Read,
    /// Buffer that the call writes.
    Written,
    /// Buffer that the call reads and writes.
    Updated,
}

/// The side that accesses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// The host, the device, or neither.
    Any,
    /// The host.
    Host,
}

/// One object that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Kind of the object.
    pub thing: Thing,
    /// Name of the object in the plan.
    pub name: &'a str,
    /// Use of the object by the call.
    pub role: NamedAs,
    /// The side that accesses the object, if it is a buffer.
    pub by: Accessor,
}

impl Named<'_> {
    /// Returns true if the call reads the bytes of this buffer.
    pub fn is_read(&self) -> bool {
        matches!(self.role, NamedAs::Read | NamedAs::Updated)
    }

    /// Returns true if the call writes the bytes of this buffer.
    pub fn is_written(&self) -> bool {
        matches!(self.role, NamedAs::Written | NamedAs::Updated)
    }
}

/// Effect of stream capture on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InCapture {
    /// The call becomes a graph node.
    Node,
    /// The call must fail.
    Refused,
    /// The call takes effect at once, regardless of captures.
    Now,
}

/// Value that a call returns in addition to its status, under the key `gives`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// No value that a case can check.
    Nothing,
    /// A number. A case may also compare it with the trial's first one, by one of these words.
    Number(&'static [FirstValueCheck]),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number or a text, depending on the arguments.
    Anything,
}

/// C++ form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpp {
    /// As a function call with this template. `{field}` is replaced by a field's variable, number or enumerator,
    /// and `&{count: int}` by the address of a variable for the returned value.
    Function(&'static str),
    /// Written by the crate `export`, with the memory calls.
    Memory,
    /// Written by the crate `export`, with the copies and memsets.
    Transfer,
    /// Written by the crate `export`, with the kernel calls.
    Kernel,
    /// Written by the crate `export`, with the stream and event calls.
    Stream,
    /// Written by the crate `export`, with the graph calls.
    Graph,
    /// Written by the crate `export`, with the hipRAND calls.
    Random,
    /// Written by the crate `export`, with the matrix products.
    Product,
    /// Written by the crate `export`, with the generic `hip` calls.
    Hip,
    /// Written by the crate `export`, with the checks.
    Check,
    /// Written by the crate `export`, with the actions of the host.
    Host,
    /// As a C++ block around the steps.
    Block,
}

/// Splits a template into pieces: text, and the placeholder in braces that follows it.
fn split_template(template: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    template.split('}').map(|part| match part.split_once('{') {
        Some((text, inside)) => (text, Some(inside)),
        None => (part, None),
    })
}

impl Cpp {
    /// Splits the template of a [`Cpp::Function`] into pieces: text, and the placeholder in braces that follows it.
    /// Returns no pieces for other variants.
    pub fn parts(self) -> Vec<(&'static str, Option<&'static str>)> {
        match self {
            Cpp::Function(template) => split_template(template).collect(),
            Cpp::Memory
            | Cpp::Transfer
            | Cpp::Kernel
            | Cpp::Stream
            | Cpp::Graph
            | Cpp::Random
            | Cpp::Product
            | Cpp::Hip
            | Cpp::Check
            | Cpp::Host
            | Cpp::Block => Vec::new(),
        }
    }
}

/// Returns true if the argument with this index, from 0, points to a variable for a result of the function. Returns
/// `None` if no call is written as a [`Cpp::Function`] of this name.
pub fn is_output_argument(function: &str, argument: usize) -> Option<bool> {
    IN_CPP.iter().find_map(|(cpp, _)| {
        let Cpp::Function(template) = cpp else { return None };
        let arguments = template.strip_prefix(function)?.strip_prefix('(')?;
        Some(arguments.split(", ").nth(argument).is_some_and(|text| text.starts_with("&{")))
    })
}

/// A verb of the steps of a case.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// The YAML key.
    pub name: &'static str,
    /// Short description for the language reference.
    pub about: &'static str,
    /// Value that the call returns.
    pub gives: ValueKind,
    /// Arguments of the verb.
    pub takes: VerbArguments,
}

/// Form of a verb's arguments.
#[derive(Clone, Copy, Debug)]
pub enum VerbArguments {
    /// A mapping with the keys of these fields.
    Keys(&'static [&'static [Key]]),
    /// The value of one field, or no value.
    Value(&'static [&'static [Key]]),
    /// A mapping with these keys, whose types only the crate `case` knows.
    Other(&'static [&'static str]),
}

impl Verb {
    /// Returns the keys of the verb's mapping; empty if its value is not a mapping.
    pub fn keys(&self) -> Vec<&'static str> {
        match self.takes {
            VerbArguments::Keys(fields) => {
                fields.iter().copied().flatten().map(|key| key.name).collect()
            }
            VerbArguments::Value(_) => Vec::new(),
            VerbArguments::Other(keys) => keys.to_vec(),
        }
    }
}

/// A key in the mapping of a verb.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the value.
    pub holds: KeyType,
    /// True if the key is mandatory.
    pub required: bool,
}

impl Key {
    const fn new(name: &'static str, holds: KeyType, required: bool) -> Key {
        Key { name, holds, required }
    }

    /// Returns both keys, of buffer and offset, if the field is a [`Place`], else only that of the buffer.
    const fn buffer_keys(is_place: bool, keys: &[Key; 2]) -> &[Key] {
        if is_place { keys } else { keys.split_at(1).0 }
    }
}

/// Type of the value under a key.
#[derive(Clone, Copy, Debug)]
pub enum KeyType {
    /// A name or another text.
    Name,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
}

fn choice_words<T: Choice>() -> Vec<&'static str> {
    T::ALL.iter().map(|(word, _)| *word).collect()
}

/// A field type that names a buffer.
trait Buffers: Sized {
    /// True if the type also has an offset, under a key of its own.
    const IS_PLACE: bool;
    fn buffer(&self) -> &str;
    /// Reads the field from the keys of the buffer and of its offset. Returns `None` for a [`Box3d`], which the
    /// crate `case` reads.
    fn read(from: &mut impl Keys, keys: [&str; 2]) -> Option<Self>;
    /// Appends the values of those keys to `found`.
    fn fields<'a>(&'a self, keys: [&'static str; 2], found: &mut Vec<Field<'a>>);
}

impl Buffers for Name {
    const IS_PLACE: bool = false;

    fn buffer(&self) -> &str {
        self
    }

    fn read(from: &mut impl Keys, [key, _]: [&str; 2]) -> Option<Self> {
        from.buffer(key)
    }

    fn fields<'a>(&'a self, [key, _]: [&'static str; 2], found: &mut Vec<Field<'a>>) {
        found.push(Field::name(key, self, Thing::Buffer, NamedAs::Used));
    }
}

impl Buffers for Place {
    const IS_PLACE: bool = true;

    fn buffer(&self) -> &str {
        &self.buffer
    }

    fn read(from: &mut impl Keys, [key, offset]: [&str; 2]) -> Option<Self> {
        let (buffer, offset) = (from.buffer(key), from.number(offset, Some(0)));
        Some(Place { buffer: buffer?, offset: offset? })
    }

    fn fields<'a>(&'a self, [key, offset]: [&'static str; 2], found: &mut Vec<Field<'a>>) {
        found.push(Field::place(key, self));
        found.push(Field::plain(offset, FieldKind::Number, self.offset, self.offset == 0));
    }
}

/// [`Box3d`] has more keys, which the crate `case` reads and writes.
impl Buffers for Box3d {
    const IS_PLACE: bool = true;

    fn buffer(&self) -> &str {
        &self.buffer
    }

    fn read(_: &mut impl Keys, _: [&str; 2]) -> Option<Self> {
        None
    }

    fn fields<'a>(&'a self, _: [&'static str; 2], _: &mut Vec<Field<'a>>) {}
}

fn named(thing: Thing, name: &str, role: NamedAs) -> Named<'_> {
    Named { thing, name, role, by: Accessor::Any }
}

/// Reports the buffers among the arguments of a kernel. A kernel defined in the case is assumed to read and write
/// every buffer that it gets, except through pointers to `const`.
fn arguments<'a>(kernel: &str, args: &'a [Arg], see: &mut dyn FnMut(Named<'a>)) {
    let kernel = crate::kernel(kernel);
    for (index, arg) in args.iter().enumerate() {
        for (place, only_read) in arg.places() {
            let role = match kernel {
                None if only_read => NamedAs::Read,
                None => NamedAs::Updated,
                Some(kernel) if kernel.parameters.get(index) != Some(&Parameter::Out) => {
                    NamedAs::Read
                }
                Some(kernel) if kernel.updates => NamedAs::Updated,
                Some(_) => NamedAs::Written,
            };
            see(named(Thing::Buffer, &place.buffer, role));
        }
    }
}

fn operands<'a>(operands: &'a Operands, see: &mut dyn FnMut(Named<'a>)) {
    let read = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
    for name in read.into_iter().flatten() {
        see(named(Thing::Buffer, name, NamedAs::Read));
    }
    see(named(Thing::Buffer, &operands.d, NamedAs::Written));
}

gather! { [memory copies kernels streams events capture graphs queries rng blas hip host] }

impl Call {
    /// Returns all objects that the call itself names, in the order of its fields.
    pub fn named(&self) -> Vec<Named<'_>> {
        let mut found = Vec::new();
        self.each_name(&mut |named| found.push(named));
        found
    }

    /// Returns all objects that the call names, and those that the node it adds names.
    pub fn all_named(&self) -> Vec<Named<'_>> {
        let mut found = self.named();
        if let Call::AddNode { node, .. } = self {
            found.extend(node.all_named());
        }
        found
    }

    /// Returns the stream that the call names, even if its work is not ordered by that stream.
    pub fn stream(&self) -> Option<&str> {
        let mut stream = None;
        self.each_name(&mut |named| {
            if named.thing == Thing::Stream {
                stream = Some(named.name);
            }
        });
        stream
    }

    /// Returns true if the host compares bytes with those that the case requires.
    pub fn is_check(&self) -> bool {
        matches!(self, Call::Check { .. } | Call::Equal { .. } | Call::Differ { .. })
    }

    /// Returns the kernels that the call, or the node that it adds, launches or inspects.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let used = |n: &Named<'_>| n.thing == Thing::Kernel && n.role == NamedAs::Used;
        self.all_named().into_iter().filter(used).map(|n| n.name)
    }

    /// Returns the call that accesses buffers: the node that [`Call::AddNode`] adds, else the call itself.
    pub fn work(&self) -> &Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// Like [`Call::work`], but mutable.
    pub fn work_mut(&mut self) -> &mut Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// Returns the library functions that the call needs; empty for actions of the host.
    pub fn functions(&self, plan: &Plan) -> &'static [&'static str] {
        match self.needed_functions(plan) {
            [first, ..] if is_host_action(first) => &[],
            functions => functions,
        }
    }
}

/// Returns true if the name is an action of the host or a block instead of a library function.
fn is_host_action(name: &str) -> bool {
    name.contains(' ') || ["repeat", "thread"].contains(&name)
}

/// Returns the name that signatures and reports use for a call: its first function, or the action of the host.
pub fn api(call: &Call, plan: &Plan) -> &'static str {
    call.needed_functions(plan).first().copied().unwrap_or_default()
}

/// Returns all names that [`api`] can return, sorted and without duplicates.
pub fn apis() -> &'static [&'static str] {
    static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        Vec::from_iter(BTreeSet::from_iter(
            sorted_unique(FIRST_FUNCTIONS).chain(hip_function_names()),
        ))
    });
    &ALL
}

/// Returns all library functions that calls can need, sorted and without duplicates.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let all: BTreeSet<_> = sorted_unique(ALL_FUNCTIONS).chain(hip_function_names()).collect();
    all.into_iter().filter(|name| !is_host_action(name))
}

fn hip_function_names() -> impl Iterator<Item = &'static str> {
    crate::hip_functions().iter().map(crate::HipFunction::name)
}

fn sorted_unique(lists: &[&[&'static str]]) -> impl Iterator<Item = &'static str> {
    let mut all: Vec<_> = lists.iter().copied().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Returns all verbs of the steps of a case.
pub fn verbs() -> impl Iterator<Item = &'static Verb> + Clone {
    OWN_VERBS.iter().copied().flatten()
}

/// Returns the verbs whose calls can use this function.
pub fn verbs_that_make(function: &str) -> impl Iterator<Item = &'static Verb> {
    // `ALL_FUNCTIONS` has two lists per call: those of `makes` and those of `by_hand`.
    let made = OWN_VERBS.iter().zip(ALL_FUNCTIONS.chunks(2));
    let makes = move |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&function));
    made.filter(move |(_, lists)| makes(lists)).flat_map(|(verbs, _)| verbs.iter())
}

#[cfg(test)]
mod tests;
