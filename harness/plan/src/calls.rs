//! Every call: one declaration each, in a file per family, from which everything regular follows.
//!
//! A declaration has the fields of the call and what they are to it, and then, all of it mandatory and in this order:
//!
//! | row | what it says |
//! | --- | --- |
//! | `verb` | how a case writes it: `keys`, `value`, `by_hand`, `block`, `part` or `none`; see below |
//! | `makes` | its functions: the one whose status counts, then what else it needs; with a space: what the host does |
//! | `in_capture` | what a captured stream makes of it, an [`InCapture`] |
//! | `by_hand` | the function by which a node that does the same is added to a graph, if there is one |
//! | `gives` | the value that it gives, a [`ValueKind`] |
//! | `effect` | `nothing`, the `only` part of what it does, or all of them: see below |
//! | `words` | what it is called where people read of it |
//! | `cpp` | how it is written in C++, a [`Cpp`] |
//!
//! What the fields are to the call, after `as`:
//!
//! | role | what it is |
//! | --- | --- |
//! | `makes(T)`, `ends(T)`, `uses(T)` | the name of a [`Thing`] that the call makes, ends or works with |
//! | `reads(W)`, `writes(W)`, `updates(W)` | a buffer, or a place in one; where W is `Host`, the host itself does it |
//! | `arguments(kernel)`, `operands` | what a kernel or a product is given |
//! | `given(function)` | what a function of the table in `hip.rs` is given |
//! | `maybe(T)` | the name of a thing that the call may work with |
//! | `node`, `block` | another call, or steps |
//! | `number`, `flag`, `choice`, `text` | a plain value; a default stands in brackets behind it |
//! | `asynchronous` | what says whether the host goes on before the work is done |
//! | `plain` | any other value |
//!
//! The forms of verbs: `keys` has a key for each field, `value` the one field, or nothing. `by_hand` has keys of its own,
//! which the crate `case` reads and writes by a method of that name, as it reads a `block`. A `part` is read under another
//! verb and written by a method of its own. `none` is only around the steps of a case.
//!
//! The parts of an effect are values, which `calls/effects.rs` declares: `memory` is an [`OnMemory`], `captures` an
//! [`OnCaptures`], `order` an [`OnOrder`]; `work_stream` says whose work it is ([`WorkStream`]), and `over` what is promised to be over
//! when the call returns ([`CompletedOnReturn`]). What a call touches, and when, follows from them. The sources are in `promise.rs`.

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

/// What a call names: a buffer, or an object of HIP or of a library above it.
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

/// What a thing that a call names is to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamedAs {
    /// It is there after the call, if that succeeds.
    Made,
    /// It is gone after the call, if that succeeds.
    Ended,
    /// The call works with it.
    Used,
    /// A buffer that is read.
    Read,
    /// A buffer that is written.
    Written,
    /// A buffer that is read and written.
    Updated,
}

/// Who reads or writes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// The host or the device, or nobody.
    Any,
    /// The host itself.
    Host,
}

/// One thing that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// What it is.
    pub thing: Thing,
    /// Its name in the plan.
    pub name: &'a str,
    /// What it is to the call.
    pub role: NamedAs,
    /// Who touches it, where it is a buffer.
    pub by: Accessor,
}

impl Named<'_> {
    /// Whether it is a buffer whose bytes are read.
    pub fn is_read(&self) -> bool {
        matches!(self.role, NamedAs::Read | NamedAs::Updated)
    }

    /// Whether it is a buffer whose bytes are written.
    pub fn is_written(&self) -> bool {
        matches!(self.role, NamedAs::Written | NamedAs::Updated)
    }
}

/// What a captured stream makes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InCapture {
    /// It becomes a node.
    Node,
    /// It must fail.
    Refused,
    /// It takes effect when it is made, whatever is captured.
    Now,
}

/// The value that a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// None that a case can speak of.
    Nothing,
    /// A number, of which the case may also say one of these.
    Number(&'static [FirstValueCheck]),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number or a text, as the call says.
    Anything,
}

/// How a call is written in C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpp {
    /// As a call of this function: `{field}` is the variable, the number or the word, in the spelling of an
    /// enumerator, of a field, and `&{count: int}` the place for the value that the call gives.
    Function(&'static str),
    /// By the crate `export` itself, as what is done to memory.
    Memory,
    /// By the crate `export` itself, as a copy or memset.
    Transfer,
    /// By the crate `export` itself, as what is done with kernels.
    Kernel,
    /// By the crate `export` itself, as what is done with streams and events.
    Stream,
    /// By the crate `export` itself, as what is done with graphs.
    Graph,
    /// By the crate `export` itself, as what is done with random numbers.
    Random,
    /// By the crate `export` itself, as a product.
    Product,
    /// By the crate `export` itself, as any function.
    Hip,
    /// By the crate `export` itself, as a check.
    Check,
    /// By the crate `export` itself, as what the host does.
    Host,
    /// As a block around its steps.
    Block,
}

/// The parts of how a call is written: text, and what stands between braces.
fn parts(template: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    template.split('}').map(|part| match part.split_once('{') {
        Some((text, inside)) => (text, Some(inside)),
        None => (part, None),
    })
}

impl Cpp {
    /// The text of a [`Cpp::Function`], each part with what stands between the braces behind it.
    pub fn parts(self) -> Vec<(&'static str, Option<&'static str>)> {
        match self {
            Cpp::Function(template) => parts(template).collect(),
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

/// Whether this argument of a function, counted from 0, is a place for what the function makes or gives. None where
/// no call is written in C++ by [`Cpp::Function`] of that function.
pub fn is_output_argument(function: &str, argument: usize) -> Option<bool> {
    IN_CPP.iter().find_map(|(cpp, _)| {
        let Cpp::Function(template) = cpp else { return None };
        let arguments = template.strip_prefix(function)?.strip_prefix('(')?;
        Some(arguments.split(", ").nth(argument).is_some_and(|text| text.starts_with("&{")))
    })
}

/// A verb of a case's steps.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// How it is written.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What its call gives.
    pub gives: ValueKind,
    /// What it takes, where its call is read from its declaration.
    pub takes: VerbArguments,
}

/// What a verb takes.
#[derive(Clone, Copy, Debug)]
pub enum VerbArguments {
    /// The keys of these fields.
    Keys(&'static [&'static [Key]]),
    /// The value of one field, or nothing.
    Value(&'static [&'static [Key]]),
    /// What only the crate `case` knows, under these keys.
    Other(&'static [&'static str]),
}

impl Verb {
    /// The keys of its value; none where that is no mapping.
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

/// A key of a verb.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What stands under it.
    pub holds: KeyType,
    /// Whether it must be there.
    pub required: bool,
}

impl Key {
    const fn of(name: &'static str, holds: KeyType, required: bool) -> Key {
        Key { name, holds, required }
    }

    /// The keys of a buffer, or of a place in one, among these.
    const fn of_buffer(is_place: bool, keys: &[Key; 2]) -> &[Key] {
        if is_place { keys } else { keys.split_at(1).0 }
    }
}

/// What stands under a key.
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

fn words<T: Choice>() -> Vec<&'static str> {
    T::ALL.iter().map(|(word, _)| *word).collect()
}

/// A field that may name buffers.
trait Buffers: Sized {
    /// Whether it says where in the buffer, under a key of its own.
    const IS_PLACE: bool;
    fn buffer(&self) -> &str;
    /// Reads it from the keys of the buffer and of the offset; none where only the crate `case` can.
    fn read(from: &mut impl Keys, keys: [&str; 2]) -> Option<Self>;
    /// As values of those keys.
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

/// A box has more keys.
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

/// A kernel of the case's own may read and write all that it gets, but for what is `const`.
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
    /// Everything that the call itself names, in the order of its fields.
    pub fn named(&self) -> Vec<Named<'_>> {
        let mut found = Vec::new();
        self.each_name(&mut |named| found.push(named));
        found
    }

    /// Everything that the call names, and what a node that it adds does.
    pub fn all_named(&self) -> Vec<Named<'_>> {
        let mut found = self.named();
        if let Call::AddNode { node, .. } = self {
            found.extend(node.all_named());
        }
        found
    }

    /// The stream that the call names, whether it is ordered by it or not.
    pub fn stream(&self) -> Option<&str> {
        let mut stream = None;
        self.each_name(&mut |named| {
            if named.thing == Thing::Stream {
                stream = Some(named.name);
            }
        });
        stream
    }

    /// Whether the host looks at bytes that the case states.
    pub fn is_check(&self) -> bool {
        matches!(self, Call::Check { .. } | Call::Equal { .. } | Call::Differ { .. })
    }

    /// The kernels that the call, or a node that it adds, launches or looks into.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let used = |n: &Named<'_>| n.thing == Thing::Kernel && n.role == NamedAs::Used;
        self.all_named().into_iter().filter(used).map(|n| n.name)
    }

    /// What is done to buffers: the call itself, or what it makes a node of.
    pub fn work(&self) -> &Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// The same, to be changed.
    pub fn work_mut(&mut self) -> &mut Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// The functions that the call needs.
    pub fn functions(&self, plan: &Plan) -> &'static [&'static str] {
        match self.made(plan) {
            [first, ..] if is_of_the_host(first) => &[],
            functions => functions,
        }
    }
}

/// Whether it is what the host does itself, and no function.
fn is_of_the_host(name: &str) -> bool {
    name.contains(' ') || ["repeat", "thread"].contains(&name)
}

/// The function that a call makes, or what the host does instead: the name by which signatures and
/// reports speak of it.
pub fn api(call: &Call, plan: &Plan) -> &'static str {
    call.made(plan).first().copied().unwrap_or_default()
}

/// Everything that [`api`] answers, each once and in the order of the alphabet.
pub fn apis() -> &'static [&'static str] {
    static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        Vec::from_iter(BTreeSet::from_iter(each_once(FIRST).chain(of_the_table())))
    });
    &ALL
}

/// Every function that calls may need, each once and in the order of the alphabet.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let all: BTreeSet<_> = each_once(MADE).chain(of_the_table()).collect();
    all.into_iter().filter(|name| !is_of_the_host(name))
}

fn of_the_table() -> impl Iterator<Item = &'static str> {
    crate::hip_functions().iter().map(crate::HipFunction::name)
}

fn each_once(lists: &[&[&'static str]]) -> impl Iterator<Item = &'static str> {
    let mut all: Vec<_> = lists.iter().copied().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Every verb of the steps of a case.
pub fn verbs() -> impl Iterator<Item = &'static Verb> + Clone {
    OWN_VERBS.iter().copied().flatten()
}

/// The verbs whose calls may make this function.
pub fn verbs_that_make(function: &str) -> impl Iterator<Item = &'static Verb> {
    // Of each call there are two lists: what it makes, and what is written by hand for it.
    let made = OWN_VERBS.iter().zip(MADE.chunks(2));
    let makes = move |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&function));
    made.filter(move |(_, lists)| makes(lists)).flat_map(|(verbs, _)| verbs.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_cpp_is_a_field_or_a_result() {
        for (cpp, fields) in IN_CPP {
            let part = |(text, inside): (&str, Option<&str>)| {
                format!("{text}{}", inside.map_or(String::new(), |inside| format!("{{{inside}}}")))
            };
            let whole: String = cpp.parts().into_iter().map(part).collect();
            assert_eq!(whole, if let Cpp::Function(template) = cpp { template } else { "" });
            for (text, inside) in cpp.parts() {
                let Some(inside) = inside else { continue };
                let result = inside.split_once(": ").is_some() && text.ends_with('&');
                assert!(result || fields.contains(&inside), "{cpp:?} has no field `{inside}`");
            }
        }
    }

    /// The name is written twice, so that a misspelt one is noticed.
    #[test]
    fn the_function_in_cpp_is_the_one_that_is_made() {
        assert_eq!(FIRST.len(), 2 * IN_CPP.len());
        for ((cpp, _), made) in IN_CPP.iter().zip(FIRST.iter().step_by(2)) {
            let Cpp::Function(template) = cpp else { continue };
            assert_eq!(template.split('(').next(), made.first().copied(), "{template}");
        }
    }

    #[test]
    fn results_are_found() {
        assert_eq!(is_output_argument("hipGraphGetNodes", 2), Some(true));
        assert_eq!(is_output_argument("hipGraphGetNodes", 0), Some(false));
        assert_eq!(is_output_argument("hipStreamEndCapture", 1), Some(true));
        assert_eq!(is_output_argument("hipGraph", 0), None);
    }

    #[test]
    fn managed_memory_is_the_devices_for_a_directed_copy() {
        use Memory::{Device, HostPinned, Managed};
        for (from, to, function) in [
            (HostPinned, Device, "hipMemcpyHtoD"),
            (Device, HostPinned, "hipMemcpyDtoH"),
            (HostPinned, Managed, "hipMemcpyHtoD"),
            (Managed, HostPinned, "hipMemcpyDtoH"),
            (Managed, Device, "hipMemcpyDtoD"),
            (Device, Device, "hipMemcpyDtoD"),
        ] {
            let mut plan = Plan::nothing();
            for (name, memory) in [("from", from), ("to", to)] {
                let buffer = crate::Buffer { memory, bytes: 4, guarded: false };
                plan.buffers.insert(name.to_owned(), buffer);
            }
            let place = |name: &str| Place { buffer: name.to_owned(), offset: 0 };
            let call = Call::Copy {
                to: place("to"),
                from: place("from"),
                bytes: 4,
                api: CopyApi::MemcpyDirected,
                stream: crate::DEFAULT_STREAM.to_owned(),
            };
            assert_eq!(api(&call, &plan), function, "{from:?} to {to:?}");
            assert_eq!(call.functions(&plan), [function]);
        }
    }
}
