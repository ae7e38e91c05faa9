//! All calls that a plan can contain. Each call has one declaration, in a file per family of calls. The macros of
//! `table.rs` generate the enum [`Call`] and its methods from the declarations.
//!
//! A declaration lists the fields of the call with their roles. These rows follow, all mandatory and in this order:
//!
//! | row | meaning |
//! | --- | --- |
//! | `verb` | form of the call in a case file: `keys`, `value`, `by_hand`, `block`, `part` or `none`; see below |
//! | `makes` | library functions that the call needs; the first returns the status. A name with a space is an action of the host |
//! | `in_capture` | effect of stream capture on the call, a [`CaptureHandling`] |
//! | `by_hand` | the function that adds a node with the same effect to a graph, if HIP has one |
//! | `gives` | the value that the call returns, a [`ValueKind`] |
//! | `effect` | `nothing`, or all parts of the effect that are listed below, or `only` one of them |
//! | `words` | the name of the call in reports |
//! | `cpp` | form of the call in C++, a [`CppForm`] |
//!
//! A field's role follows the word `as`:
//!
//! | role | meaning |
//! | --- | --- |
//! | `makes(T)`, `ends(T)`, `uses(T)` | the name of an [`ObjectKind`] that the call creates, destroys or uses |
//! | `reads(W)`, `writes(W)`, `updates(W)` | a buffer, or a position in one; the host accesses it if W is `Host` |
//! | `arguments(kernel)`, `operands` | arguments of a kernel, operands of a matrix product |
//! | `given(function)` | arguments of a function in the table that `hip.rs` describes |
//! | `maybe(T)` | the name of an object that the call may use |
//! | `node`, `block` | another call, or steps |
//! | `number`, `flag`, `choice`, `text` | a plain value; its default follows in parentheses |
//! | `asynchronous` | selects whether the host continues before the work has completed |
//! | `plain` | any other value |
//!
//! The verb is the YAML key that names the call in a step of a case file, for example `copy`. Forms of verbs: in the
//! form `keys`, the verb's value is a mapping with one key per field. In the form `value`, the verb's value is that of
//! the only field, or the verb has no value. In the form `by_hand`, the crate `case` reads and writes the call in a
//! method that has the name of the verb. A `block` is read in such a method, too. A `part` is read under the verb of
//! another call and written by a method of its own. `none` means that the call has no verb: only set-up, verification
//! and teardown contain such calls.
//!
//! The parts of an effect are values of the types in `calls/effects.rs`: `memory` is a [`MemoryEffect`], `captures` a
//! [`CaptureEffect`], `order` an [`OrderEffect`]. `work_stream` is the stream that executes the work ([`WorkStream`]),
//! and `over` is the work that has completed when the call returns ([`CompletedOnReturn`]). The analyses derive the
//! accesses of a call and their order from these parts. `promise.rs` cites the sources.

use std::{collections::BTreeSet, fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};

pub use self::{
    effects::{
        Asynchronous, CaptureEffect, CompletedOnReturn, MemoryEffect, OrderEffect, WorkStream,
    },
    keys::{Field, FieldKind, FirstValueCheck, Keys},
    plan::{Effect, InjectedFault, Library, PLAN_VERSION, Phase, Plan, Step},
};
use crate::{
    Arg, Box3d, BufferAddress, CaptureMode, Choice, CopyApi, DeviceAttribute, Dtype, HipArg,
    HipRead, HostFuncApi, MatmulProblem, Memory, Name, Operands, Parameter, RandKind, Scalar,
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
#[allow(missing_docs, reason = "the variant names are self-explanatory")]
pub enum ObjectKind {
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

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Buffer => "buffer",
            ObjectKind::Stream => "stream",
            ObjectKind::Kernel => "kernel",
            ObjectKind::Event => "event",
            ObjectKind::Graph => "graph",
            ObjectKind::Exec => "executable graph",
            ObjectKind::Generator => "generator",
            ObjectKind::Blaslt => "hipBLASLt handle",
            ObjectKind::Rocblas => "rocBLAS handle",
            ObjectKind::Value => "value",
        })
    }
}

/// Ways in which a call can use an object that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectUse {
    /// The call creates the object, if it succeeds.
    Created,
    /// The call destroys the object, if it succeeds.
    Destroyed,
    /// The call uses the object, which must exist.
    Used,
    /// The call reads this buffer.
    Read,
    /// The call writes this buffer.
    Written,
    /// The call reads and writes this buffer.
    Updated,
}

/// Mark of a buffer that a call names: whether the host accesses the buffer directly during the call. The mark comes
/// from the declaration of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// The declaration does not mark the buffer: the host, the device, or neither of them accesses it.
    Any,
    /// The host accesses the buffer directly.
    Host,
}

/// An object that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedObject<'a> {
    /// Kind of the object, for example a buffer or a stream.
    pub kind: ObjectKind,
    /// Name of the object in the plan.
    pub name: &'a str,
    /// Way in which the call uses the object.
    pub role: ObjectUse,
    /// For a buffer: [`Accessor::Host`] if the declaration of the call says that the host accesses the buffer directly.
    /// [`Accessor::Any`] for all other objects.
    pub accessor: Accessor,
}

impl NamedObject<'_> {
    /// Returns true if the call reads the bytes of this buffer.
    pub fn is_read(&self) -> bool {
        matches!(self.role, ObjectUse::Read | ObjectUse::Updated)
    }

    /// Returns true if the call writes the bytes of this buffer.
    pub fn is_written(&self) -> bool {
        matches!(self.role, ObjectUse::Written | ObjectUse::Updated)
    }
}

/// Effect of a stream capture on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureHandling {
    /// The call becomes a node of the graph that is being captured.
    Node,
    /// The call must fail if its stream is being captured.
    Refused,
    /// The call takes effect at once, even if its stream is being captured.
    Now,
}

/// Kind of the value that a call returns in addition to its status. A case compares the value under the key `gives`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// The call returns no value that a case can check.
    Nothing,
    /// A number. A case may compare it with constants, and also with the first number that the same kind of call
    /// returned in the trial. The list contains the allowed comparisons with that first number.
    Number(&'static [FirstValueCheck]),
    /// One of the listed keywords.
    Word(&'static [&'static str]),
    /// A number or text, depending on the arguments of the call.
    Anything,
}

/// Form in which the exported C++ program contains a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CppForm {
    /// A function call with this template. `{field}` is replaced by the field's variable, number or enumerator. A
    /// placeholder such as `&{count: int}` is replaced by the address of a variable for the returned value.
    Function(&'static str),
    /// A memory call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Memory,
    /// A copy or a memset. It has no template: a Rust function of the crate `export` prints its C++ code.
    Transfer,
    /// A kernel call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Kernel,
    /// A stream or event call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Stream,
    /// A graph call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Graph,
    /// A hipRAND call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Random,
    /// A matrix product. It has no template: a Rust function of the crate `export` prints its C++ code.
    Product,
    /// A generic `hip` call. It has no template: a Rust function of the crate `export` prints its C++ code.
    Hip,
    /// A check. It has no template: a Rust function of the crate `export` prints its C++ code.
    Check,
    /// An action of the host. It has no template: a Rust function of the crate `export` prints its C++ code.
    Host,
    /// A C++ block around the steps inside the call.
    Block,
}

/// Splits a template into pieces: each piece is some text, followed by the placeholder in braces after the text, if
/// there is one.
fn split_template(template: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    template.split('}').map(|part| match part.split_once('{') {
        Some((text, inside)) => (text, Some(inside)),
        None => (part, None),
    })
}

impl CppForm {
    /// Splits the template of a [`CppForm::Function`] into pieces: each piece is some text, followed by the placeholder
    /// in braces after the text, if there is one. Returns an empty list for other variants.
    pub fn parts(self) -> Vec<(&'static str, Option<&'static str>)> {
        match self {
            CppForm::Function(template) => split_template(template).collect(),
            CppForm::Memory
            | CppForm::Transfer
            | CppForm::Kernel
            | CppForm::Stream
            | CppForm::Graph
            | CppForm::Random
            | CppForm::Product
            | CppForm::Hip
            | CppForm::Check
            | CppForm::Host
            | CppForm::Block => Vec::new(),
        }
    }
}

/// Returns true if argument number `argument` of `function`, counted from 0, is a pointer through which the function
/// returns its result. Returns `None` if no [`CppForm::Function`] template calls the function.
pub fn is_output_argument(function: &str, argument: usize) -> Option<bool> {
    IN_CPP.iter().find_map(|(cpp, _)| {
        let CppForm::Function(template) = cpp else { return None };
        let arguments = template.strip_prefix(function)?.strip_prefix('(')?;
        Some(arguments.split(", ").nth(argument).is_some_and(|text| text.starts_with("&{")))
    })
}

/// A verb: the YAML key that names the call in a step of a case, for example `copy`.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// The key in the YAML file.
    pub name: &'static str,
    /// Short description for the language reference.
    pub about: &'static str,
    /// Kind of the value that the verb's call returns.
    pub gives: ValueKind,
    /// Value that the verb takes in a case file.
    pub arguments: VerbArguments,
}

/// Value that a verb takes in a case file.
#[derive(Clone, Copy, Debug)]
pub enum VerbArguments {
    /// A mapping; each field of the call has one key, or two for a place in a buffer.
    Keys(&'static [&'static [Key]]),
    /// The value of the call's only field. If the list is empty, the verb has no value.
    Value(&'static [&'static [Key]]),
    /// A mapping with these keys. Only the crate `case` knows the types of their values.
    Other(&'static [&'static str]),
}

impl Verb {
    /// Returns the keys of the verb's mapping; an empty list if the verb's value is not a mapping.
    pub fn keys(&self) -> Vec<&'static str> {
        match self.arguments {
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
    pub value_type: KeyType,
    /// True if the key is mandatory.
    pub required: bool,
}

impl Key {
    const fn new(name: &'static str, holds: KeyType, required: bool) -> Key {
        Key { name, value_type: holds, required }
    }

    /// Returns the keys of a field that names a buffer. `keys` are the key of the buffer and the key of the offset. The
    /// field has both keys if `is_place` is true, else only the first one.
    const fn buffer_keys(is_place: bool, keys: &[Key; 2]) -> &[Key] {
        if is_place { keys } else { keys.split_at(1).0 }
    }
}

/// Type of the value under a key.
#[derive(Clone, Copy, Debug)]
pub enum KeyType {
    /// A name, or other text.
    Name,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// One keyword of a list. The function returns the list.
    Word(fn() -> Vec<&'static str>),
}

fn choice_words<T: Choice>() -> Vec<&'static str> {
    T::ALL.iter().map(|(word, _)| *word).collect()
}

/// Field types that name a buffer.
trait Buffers: Sized {
    /// True if the type also contains an offset, which is written under a second key.
    const IS_PLACE: bool;
    fn buffer(&self) -> &str;
    /// Reads the name of the buffer and the offset, whose YAML keys are `keys`. Returns `None` after a mistake, and for
    /// a [`Box3d`], which the crate `case` reads.
    fn read(from: &mut impl Keys, keys: [&str; 2]) -> Option<Self>;
    /// Appends the name of the buffer, and the offset if the type has one, to `found`.
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
        found.push(Field::name(key, self, ObjectKind::Buffer, ObjectUse::Used));
    }
}

impl Buffers for BufferAddress {
    const IS_PLACE: bool = true;

    fn buffer(&self) -> &str {
        &self.buffer
    }

    fn read(from: &mut impl Keys, [key, offset]: [&str; 2]) -> Option<Self> {
        let (buffer, offset) = (from.buffer(key), from.number(offset, Some(0)));
        Some(BufferAddress { buffer: buffer?, offset: offset? })
    }

    fn fields<'a>(&'a self, [key, offset]: [&'static str; 2], found: &mut Vec<Field<'a>>) {
        found.push(Field::place(key, self));
        found.push(Field::plain(offset, FieldKind::Number, self.offset, self.offset == 0));
    }
}

/// The YAML form of a [`Box3d`] has further keys in addition to buffer and offset. The crate `case` reads and writes
/// them.
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

fn named(thing: ObjectKind, name: &str, role: ObjectUse) -> NamedObject<'_> {
    NamedObject { kind: thing, name, role, accessor: Accessor::Any }
}

/// Calls `see` for each buffer among the arguments of a kernel. A kernel that the case defines is assumed to read and
/// write every buffer, except that it only reads the buffers passed as pointers to `const`.
fn arguments<'a>(kernel: &str, args: &'a [Arg], see: &mut dyn FnMut(NamedObject<'a>)) {
    let kernel = crate::kernel(kernel);
    for (index, arg) in args.iter().enumerate() {
        for (place, only_read) in arg.places() {
            let role = match kernel {
                None if only_read => ObjectUse::Read,
                None => ObjectUse::Updated,
                Some(kernel) if kernel.parameters.get(index) != Some(&Parameter::Out) => {
                    ObjectUse::Read
                }
                Some(kernel) if kernel.updates => ObjectUse::Updated,
                Some(_) => ObjectUse::Written,
            };
            see(named(ObjectKind::Buffer, &place.buffer, role));
        }
    }
}

fn operands<'a>(operands: &'a Operands, see: &mut dyn FnMut(NamedObject<'a>)) {
    let read = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
    for name in read.into_iter().flatten() {
        see(named(ObjectKind::Buffer, name, ObjectUse::Read));
    }
    see(named(ObjectKind::Buffer, &operands.d, ObjectUse::Written));
}

gather! { [memory copies kernels streams events capture graphs queries rng blas hip host] }

impl Call {
    /// Returns all objects that the call names, in the order of its fields. If the call adds a node to a graph, objects
    /// that only the node names are left out.
    pub fn named(&self) -> Vec<NamedObject<'_>> {
        let mut found = Vec::new();
        self.each_name(&mut |named| found.push(named));
        found
    }

    /// Returns all objects that the call names. For [`Call::AddNode`], the objects that the added node names are
    /// included.
    pub fn all_named(&self) -> Vec<NamedObject<'_>> {
        let mut found = self.named();
        if let Call::AddNode { node, .. } = self {
            found.extend(node.all_named());
        }
        found
    }

    /// Returns the stream that the call names, even if that stream does not order the call's work.
    pub fn stream(&self) -> Option<&str> {
        let mut stream = None;
        self.each_name(&mut |named| {
            if named.kind == ObjectKind::Stream {
                stream = Some(named.name);
            }
        });
        stream
    }

    /// Returns true if the call is a check: the host compares bytes with the content that the case requires.
    pub fn is_check(&self) -> bool {
        matches!(
            self,
            Call::Check { .. } | Call::Equal { .. } | Call::Differ { .. } | Call::AtLeast { .. }
        )
    }

    /// Returns the kernels that the call launches or inspects. For [`Call::AddNode`], the kernels of the added node are
    /// included.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let used = |n: &NamedObject<'_>| n.kind == ObjectKind::Kernel && n.role == ObjectUse::Used;
        self.all_named().into_iter().filter(used).map(|n| n.name)
    }

    /// Returns the call from which the accesses to buffers follow: for [`Call::AddNode`] the added node, else the call
    /// itself.
    pub fn work(&self) -> &Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// Returns a mutable reference to the call that describes the accesses to buffers; see [`Call::work`].
    pub fn work_mut(&mut self) -> &mut Call {
        if let Call::AddNode { node, .. } = self { node } else { self }
    }

    /// Returns the library functions that the call needs; an empty list if the call is an action of the host.
    pub fn functions(&self, plan: &Plan) -> &'static [&'static str] {
        match self.needed_functions(plan) {
            [first, ..] if is_host_action(first) => &[],
            functions => functions,
        }
    }
}

fn is_host_action(name: &str) -> bool {
    name.contains(' ') || ["repeat", "thread"].contains(&name)
}

/// Returns the name of a call in signatures and reports: the first function that it calls, or the action of the host.
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

/// Returns all library functions that any call can need, sorted and without duplicates.
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

/// Returns every verb that a step in a case can have.
pub fn verbs() -> impl Iterator<Item = &'static Verb> + Clone {
    OWN_VERBS.iter().copied().flatten()
}

/// Returns the verbs whose calls can use this function.
pub fn verbs_that_make(function: &str) -> impl Iterator<Item = &'static Verb> {
    // `ALL_FUNCTIONS` contains two lists per call: the functions of the row `makes`, then those of the row `by_hand`.
    let made = OWN_VERBS.iter().zip(ALL_FUNCTIONS.chunks(2));
    let makes = move |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&function));
    made.filter(move |(_, lists)| makes(lists)).flat_map(|(verbs, _)| verbs.iter())
}

/// Returns the library functions that the calls of a verb can use.
pub fn functions_of_verb(verb: &str) -> impl Iterator<Item = &'static str> {
    let made = OWN_VERBS.iter().zip(ALL_FUNCTIONS.chunks(2));
    let of_verb = made.filter(move |(verbs, _)| verbs.iter().any(|other| other.name == verb));
    let names = of_verb.flat_map(|(_, lists)| lists.iter().flat_map(|list| list.iter()));
    names.copied().filter(|name| !is_host_action(name))
}

#[cfg(test)]
mod tests;
