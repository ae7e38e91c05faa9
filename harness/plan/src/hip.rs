//! Any function of libamdhip64 as a step: a table says what it takes, and a step gives it that.
//!
//! `hip/functions.txt` has a line for each function: its declaration in the header, and behind the name of each parameter its role.
//!
//! | role | what it is |
//! | --- | --- |
//! | none | a number, or a handle that an earlier call gave |
//! | `asks` | a stream, event or graph, which the call looks at |
//! | `own` | the same, or memory, which it changes or ends: only what an earlier call of this kind gave, as nobody else knows of it |
//! | `works` | a stream that gets work: during a capture a node |
//! | `text` | text |
//! | `in` | what is read there: numbers, handles and bytes, as a struct; `in[n]` is so many of them |
//! | `keeps` | the same, in which addresses of buffers may stand, as the call itself touches none of them |
//! | `out` | a place for what the call gives, of 4096 bytes; `out[n]` where another parameter says how many bytes or elements |
//! | `inout` | the same, with a number in it before |
//! | `at` | an address, at which nothing is read or written |
//! | `reads[n]`, `writes[n]` | so many bytes of a buffer; with one of each, and of as many bytes, the call copies them |
//! | `sets[v;e;n]` | so many bytes of a buffer, of which each `e` become the value of parameter `v` |
//!
//! A test of the crate `rocrepro` compares the lines with the headers of the stacks that have them.

use std::{collections::HashMap, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::{Arg, Name, Place, Scalar, ScalarType};

const TABLE: &str = include_str!("hip/functions.txt");

/// The same of functions that have steps of their own, whose effects that step declares.
const OF_STEPS: &str = include_str!("hip/steps.txt");

/// Bytes that stand ready for what a call gives, and of what it reads there.
pub const MAX_VALUE_BYTES: usize = 4096;

/// Most arguments of a function.
pub const MAX_ARGUMENTS: usize = 12;

/// One function of the table.
#[derive(Debug)]
pub struct HipFunction {
    names: [&'static str; 1],
    /// Its parameters, in their order.
    pub parameters: Vec<HipParameter>,
    /// Whether it gives text in the place of a status.
    pub gives_text: bool,
}

/// One parameter.
#[derive(Debug)]
pub struct HipParameter {
    /// Its type in C.
    pub ty: &'static str,
    /// Its name in the header.
    pub name: &'static str,
    /// What it is to the call.
    pub role: HipRole,
}

/// What a parameter is to the call; the module says more.
#[derive(Debug)]
#[allow(missing_docs, reason = "the module says what each is")]
pub enum HipRole {
    Value,
    Asks,
    Own,
    Works,
    Text,
    In(Option<HipSize>),
    Keeps,
    Out(Option<HipSize>),
    InOut,
    At,
    Reads(HipSize),
    Writes(HipSize),
    Sets { value: &'static str, element: u64, bytes: HipSize },
}

/// A product of parameters and numbers.
#[derive(Debug, PartialEq)]
pub struct HipSize(Vec<&'static str>);

/// An argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HipArg {
    /// A null pointer or handle.
    Null,
    /// A number.
    Number(Scalar),
    /// Text.
    Text(String),
    /// What an earlier call gave.
    Value(Name),
    /// A place for what this call gives, under this name, with this number in it before.
    #[allow(missing_docs, reason = "as the names say")]
    Out { name: Name, before: u64 },
    /// A thing of the plan.
    #[allow(missing_docs, reason = "as the names say")]
    Stream(Name),
    /// An event of the plan.
    Event(Name),
    /// A graph of the plan.
    Graph(Name),
    /// The function of a kernel.
    Kernel(Name),
    /// The address of a place.
    Place(Place),
    /// A struct, behind a pointer to it.
    Struct(Vec<HipArg>),
    /// The bytes of something in a struct.
    Bytes(Vec<u8>),
}

/// How a value is looked at: the number at a byte, or the text there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HipRead {
    /// From this byte of what the call gave.
    pub at: u64,
    /// As what.
    pub sort: Sort,
}

/// What a value is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// A number of this type.
    Number(ScalarType),
    /// Characters up to a zero.
    Text,
    /// The address of such characters.
    TextAt,
    /// An address or a handle, of which only whether it is null may be said.
    Pointer,
}

impl HipSize {
    fn of(text: &'static str) -> HipSize {
        HipSize(text.split('*').collect())
    }

    /// The number, where `number` tells that of a parameter; none where one is no number.
    pub fn resolve(&self, number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        self.0.iter().try_fold(1_u64, |product, factor| {
            let factor = factor.parse().ok().or_else(|| number(factor))?;
            Some(product.saturating_mul(factor))
        })
    }
}

/// A parameter's type without `const` and one star, where it has one.
pub fn pointed(ty: &str) -> Option<&str> {
    ty.strip_suffix('*').map(|ty| ty.trim().strip_prefix("const ").unwrap_or(ty).trim())
}

/// The type of a number in C; an enum is as wide as an `int`. None where it is a pointer.
pub fn scalar(ty: &str) -> Option<ScalarType> {
    let ty = ty.strip_prefix("const ").unwrap_or(ty);
    Some(match ty {
        _ if ty.ends_with('*') || is_handle(ty) => return None,
        "unsigned char" => ScalarType::U8,
        "unsigned short" => ScalarType::U16,
        "unsigned int" | "uint32_t" => ScalarType::U32,
        "size_t" | "unsigned long long" | "uint64_t" => ScalarType::U64,
        _ => ScalarType::I32,
    })
}

/// Whether values of this type are pointers that only the library looks behind.
pub fn is_handle(ty: &str) -> bool {
    const HANDLES: &[&str] = &[
        "hipArray_const_t",
        "hipArray_t",
        "hipCtx_t",
        "hipDeviceptr_t",
        "hipEvent_t",
        "hipFunction_t",
        "hipGraphExec_t",
        "hipGraphNode_t",
        "hipGraph_t",
        "hipMemGenericAllocationHandle_t",
        "hipMemPool_t",
        "hipMipmappedArray_const_t",
        "hipMipmappedArray_t",
        "hipModule_t",
        "hipStream_t",
        "hipSurfaceObject_t",
        "hipTextureObject_t",
        "hipUserObject_t",
    ];
    HANDLES.contains(&ty.strip_prefix("const ").unwrap_or(ty))
}

/// Whether a value is a struct, whose members have no names here.
pub fn is_struct(ty: &str) -> bool {
    const ENUMS: &[&str] = &[
        "hipDevice_t",
        "hipDriverEntryPointQueryResult",
        "hipDriverProcAddressQueryResult",
        "hipError_t",
        "hipFuncCache_t",
        "hipGraphNodeType",
        "hipMemAccessFlags",
        "hipSharedMemConfig",
        "hipStreamCaptureStatus",
    ];
    (ty.starts_with("hip") || ty.starts_with("HIP")) && !ENUMS.contains(&ty) && !is_handle(ty)
}

impl HipParameter {
    /// What the parameter gives is taken for this, unless the case says otherwise; none of a struct.
    pub fn gives(&self) -> Option<Sort> {
        match pointed(self.ty)? {
            "char" => Some(Sort::Text),
            "const char*" | "char*" => Some(Sort::TextAt),
            "void" => Some(Sort::Number(ScalarType::U64)),
            of if is_struct(of) => None,
            of => Some(scalar(of).map_or(Sort::Pointer, Sort::Number)),
        }
    }

    fn parse(text: &'static str) -> Option<HipParameter> {
        const ROLES: [&str; 12] = [
            "asks", "own", "works", "text", "in", "keeps", "out", "inout", "at", "reads", "writes",
            "sets",
        ];
        let (before, last) = text.rsplit_once(' ')?;
        let word = last.split('[').next().unwrap_or(last);
        let size = last.split_once('[').map(|(_, size)| size.trim_end_matches(']'));
        if !ROLES.contains(&word) {
            return Some(HipParameter { ty: before, name: last, role: HipRole::Value });
        }
        let (ty, name) = before.rsplit_once(' ')?;
        let role = match (word, size) {
            ("asks", None) => HipRole::Asks,
            ("own", None) => HipRole::Own,
            ("works", None) => HipRole::Works,
            ("text", None) => HipRole::Text,
            ("in", size) => HipRole::In(size.map(HipSize::of)),
            ("keeps", None) => HipRole::Keeps,
            ("out", size) => HipRole::Out(size.map(HipSize::of)),
            ("inout", None) => HipRole::InOut,
            ("at", None) => HipRole::At,
            ("reads", Some(size)) => HipRole::Reads(HipSize::of(size)),
            ("writes", Some(size)) => HipRole::Writes(HipSize::of(size)),
            ("sets", Some(size)) => {
                let mut parts = size.split(';');
                let (value, element) = (parts.next()?, parts.next()?.parse().ok()?);
                HipRole::Sets { value, element, bytes: HipSize::of(parts.next()?) }
            }
            _ => return None,
        };
        Some(HipParameter { ty, name, role })
    }
}

impl HipFunction {
    fn parse(line: &'static str) -> Option<HipFunction> {
        let (name, rest) = line.split_once('(')?;
        let (parameters, behind) = rest.rsplit_once(')')?;
        let gives_text = behind.contains("char");
        let parameters = match parameters {
            "" => Vec::new(),
            some => some.split(", ").map(HipParameter::parse).collect::<Option<_>>()?,
        };
        Some(HipFunction { names: [name], parameters, gives_text })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The parameter whose value `gives` speaks of: the first that gives one.
    pub fn first_given(&self) -> Option<usize> {
        let gives = |p: &HipParameter| matches!(p.role, HipRole::Out(_) | HipRole::InOut);
        self.parameters.iter().position(gives)
    }
}

/// The functions of the table, in the order of the alphabet.
pub fn hip_functions() -> &'static [HipFunction] {
    static ALL: OnceLock<Vec<HipFunction>> = OnceLock::new();
    ALL.get_or_init(|| read(TABLE))
}

/// The functions that the step `hip` does not call, as there are steps for them, in the order of the alphabet.
pub fn hip_functions_of_steps() -> &'static [HipFunction] {
    static ALL: OnceLock<Vec<HipFunction>> = OnceLock::new();
    ALL.get_or_init(|| read(OF_STEPS))
}

fn read(table: &'static str) -> Vec<HipFunction> {
    lines(table).filter_map(HipFunction::parse).collect()
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// What the header says of a function, be it one that the step `hip` calls or not.
pub fn hip_declared(name: &str) -> Option<&'static HipFunction> {
    let of_steps = || hip_functions_of_steps().iter().find(|function| function.name() == name);
    hip_function(name).or_else(of_steps)
}

/// A function of the table.
pub fn hip_function(name: &str) -> Option<&'static HipFunction> {
    static BY_NAME: OnceLock<HashMap<&str, &HipFunction>> = OnceLock::new();
    let all = || hip_functions().iter().map(|function| (function.name(), function)).collect();
    BY_NAME.get_or_init(all).get(name).copied()
}

/// The functions that a call of this one makes.
pub(crate) fn called(function: &str) -> &'static [&'static str] {
    hip_function(function).map_or(&[], |function| &function.names)
}

impl HipArg {
    /// The number, where it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            HipArg::Number(number) => Some(number.bits),
            HipArg::Out { before, .. } => Some(*before),
            _ => None,
        }
    }

    /// Its bytes in a struct, where `address` tells what a name stands for. Members are aligned as C aligns them.
    pub fn to_bytes(&self, address: &impl Fn(&HipArg) -> u64) -> Vec<u8> {
        match self {
            HipArg::Number(number) => number.to_bytes(),
            HipArg::Bytes(bytes) => bytes.clone(),
            HipArg::Struct(members) => {
                let mut all = Vec::new();
                for member in members {
                    all.resize(all.len().next_multiple_of(member.alignment()), 0);
                    all.extend(member.to_bytes(address));
                }
                all
            }
            other => address(other).to_le_bytes().to_vec(),
        }
    }

    /// What its place in a struct is a multiple of.
    pub fn alignment(&self) -> usize {
        match self {
            HipArg::Number(number) => number.ty.bytes(),
            HipArg::Bytes(_) => 1,
            HipArg::Struct(members) => members.iter().map(HipArg::alignment).max().unwrap_or(1),
            _ => 8,
        }
    }
}

/// What is touched: whether it is written, where, and how many bytes.
pub type HipAccess<'a> = (bool, &'a Place, u64);

/// The places that a call touches.
pub fn hip_accesses<'a>(function: &str, args: &'a [HipArg]) -> Vec<HipAccess<'a>> {
    let Some(function) = hip_function(function) else { return Vec::new() };
    let number = |name: &str| number_of(function, args, name);
    let touched = args.iter().zip(&function.parameters).filter_map(|(arg, parameter)| {
        let HipArg::Place(place) = arg else { return None };
        let (written, size) = match &parameter.role {
            HipRole::Reads(size) => (false, size),
            HipRole::Writes(size) | HipRole::Sets { bytes: size, .. } => (true, size),
            _ => return None,
        };
        Some((written, place, size.resolve(number).unwrap_or(u64::MAX)))
    });
    touched.collect()
}

/// The number that stands under a parameter's name.
pub fn number_of(function: &HipFunction, args: &[HipArg], name: &str) -> Option<u64> {
    let at = function.parameters.iter().position(|parameter| parameter.name == name)?;
    args.get(at)?.number()
}

/// A struct's argument from one that a kernel takes.
impl From<Arg> for HipArg {
    fn from(arg: Arg) -> HipArg {
        match arg {
            Arg::Address(place) | Arg::Input(place) => HipArg::Place(place),
            Arg::Number(number) => HipArg::Number(number),
            Arg::Struct(members) => HipArg::Struct(members.into_iter().map(HipArg::from).collect()),
            Arg::Bytes(bytes) => HipArg::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_has_what_it_speaks_of() {
        for (functions, table) in [(hip_functions(), TABLE), (hip_functions_of_steps(), OF_STEPS)] {
            assert_eq!(functions.len(), lines(table).count());
            assert!(functions.is_sorted_by(|a, b| a.name() < b.name()));
        }
        let twice = hip_functions_of_steps().iter().find(|f| hip_function(f.name()).is_some());
        assert!(twice.is_none(), "{twice:?}");
        for function in hip_functions().iter().chain(hip_functions_of_steps()) {
            assert!(function.parameters.len() <= MAX_ARGUMENTS, "{}", function.name());
            let known = |name: &str| {
                let of = |p: &&HipParameter| p.name == name;
                function.parameters.iter().find(of).map(|parameter| parameter.ty)
            };
            for parameter in &function.parameters {
                let (place, name) = (function.name(), parameter.name);
                let sizes = match &parameter.role {
                    HipRole::Reads(size) | HipRole::Writes(size) => Some(size),
                    HipRole::Out(size) | HipRole::In(size) => size.as_ref(),
                    HipRole::Sets { value, bytes, .. } => {
                        assert!(known(value).is_some(), "{place}: {value}");
                        Some(bytes)
                    }
                    HipRole::Own => None,
                    HipRole::Value | HipRole::Asks | HipRole::Works => {
                        assert!(!parameter.ty.ends_with('*'), "{place}: {name}");
                        None
                    }
                    HipRole::Text | HipRole::Keeps | HipRole::InOut | HipRole::At => {
                        let pointer = parameter.ty.ends_with('*') || is_handle(parameter.ty);
                        assert!(pointer, "{place}: {name}");
                        None
                    }
                };
                for factor in sizes.iter().flat_map(|size| &size.0) {
                    assert!(factor.parse::<u64>().is_ok() || known(factor).is_some(), "{place}");
                }
                // A stream, event or graph says what becomes of it.
                let thing = ["hipStream_t", "hipEvent_t", "hipGraph_t", "hipGraphExec_t"];
                let told = !matches!(parameter.role, HipRole::Value);
                assert!(told || !thing.contains(&parameter.ty), "{place}: {name}");
            }
        }
    }
}
