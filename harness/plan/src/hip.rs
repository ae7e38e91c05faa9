//! The table of functions of libamdhip64 that the step `hip` can call.
//!
//! `harness/device/src/hip/functions.txt` has one line per function: its declaration from the header, with a role after
//! the name of each parameter.
//!
//! | role | meaning |
//! | --- | --- |
//! | none | a number, or a handle that an earlier call returned |
//! | `asks` | a stream, event or graph that the call reads |
//! | `own` | a stream, event, graph or memory that the call changes or destroys. An earlier `hip` step must have created it, because the analyses do not track such objects |
//! | `works` | a stream to which the call enqueues work; during a capture the work becomes a node |
//! | `text` | text |
//! | `in` | a pointer to input: numbers, handles and bytes as a struct; `in[n]` is an array of n elements |
//! | `keeps` | like `in`, but the struct may also contain addresses of buffers, because the call does not access them |
//! | `out` | a pointer to 4096 bytes for a result; `out[n]` if another parameter is the number of bytes or elements |
//! | `inout` | like `out`, but the memory contains a number before the call |
//! | `at` | an address that the call does not access |
//! | `reads[n]`, `writes[n]` | n bytes of a buffer; a call that reads and writes ranges of equal size is a copy |
//! | `sets[v;e;n]` | n bytes of a buffer, in which each element of e bytes is set to parameter v |
//!
//! A test of the crate `rocrepro` compares the lines with the headers of the stacks.

use std::{collections::HashMap, sync::OnceLock};

use device::{HIP_FUNCTIONS, HIP_FUNCTIONS_OF_STEPS};
use serde::{Deserialize, Serialize};

use crate::{Arg, BufferAddress, Name, Scalar, ScalarType};

/// Size in bytes of the memory that a call gets for each result.
pub const MAX_VALUE_BYTES: usize = 4096;

/// Maximum number of arguments of a function that the step `hip` can call.
pub const MAX_ARGUMENTS: usize = 12;

/// Declaration of one function of libamdhip64.
#[derive(Debug)]
pub struct HipFunction {
    names: [&'static str; 1],
    /// Parameters in the order of the declaration.
    pub parameters: Vec<HipParameter>,
    /// True if the function returns text instead of a status.
    pub gives_text: bool,
}

/// A parameter of a HIP function.
#[derive(Debug)]
pub struct HipParameter {
    /// C type of the parameter.
    pub ty: &'static str,
    /// Name of the parameter in the header.
    pub name: &'static str,
    /// Use of the argument by the function.
    pub role: HipRole,
}

/// Role of a parameter; the documentation of the module lists the roles.
#[derive(Debug)]
#[allow(missing_docs, reason = "the documentation of the module lists the roles")]
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

/// A size in bytes or elements: the product of parameters and constants.
#[derive(Debug, PartialEq)]
pub struct HipSize(Vec<&'static str>);

/// An argument that a `hip` step passes to its function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HipArg {
    /// A null pointer or handle.
    Null,
    /// A number.
    Number(Scalar),
    /// A text.
    Text(String),
    /// A value that an earlier call returned.
    Value(Name),
    /// A pointer to memory for a result. Later steps refer to the result by `name`. `before` is the number that the
    /// memory contains before the call.
    #[allow(missing_docs, reason = "the field names are self-explanatory")]
    Out { name: Name, before: u64 },
    /// Handle of a stream.
    #[allow(missing_docs, reason = "the field names are self-explanatory")]
    Stream(Name),
    /// Handle of an event.
    Event(Name),
    /// Handle of a graph.
    Graph(Name),
    /// Function handle of a kernel.
    Kernel(Name),
    /// The address of a place in a buffer.
    Place(BufferAddress),
    /// A pointer to a struct with these members.
    Struct(Vec<HipArg>),
    /// A member of a struct, of any type, as its bytes.
    Bytes(Vec<u8>),
}

/// The part of an earlier call's result that a `hip_value` step reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HipRead {
    /// Offset of the part in the result, in bytes.
    pub at: u64,
    /// Type of the part.
    pub sort: HipReadType,
}

/// Type of the value that a `hip_value` step reads from a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HipReadType {
    /// A number of this type.
    Number(ScalarType),
    /// Text that the result itself contains, terminated by a NUL byte.
    Text,
    /// A pointer to a NUL-terminated string.
    TextAt,
    /// An address or a handle. Its value differs between runs, so a case may only check whether it is null.
    Pointer,
}

impl HipSize {
    fn parse(text: &'static str) -> HipSize {
        HipSize(text.split('*').collect())
    }

    /// Returns the size in bytes or elements. The function `number` maps the name of a parameter to its value. Returns
    /// `None` if the size depends on a parameter that is not a number.
    pub fn resolve(&self, number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        self.0.iter().try_fold(1_u64, |product, factor| {
            let factor = factor.parse().ok().or_else(|| number(factor))?;
            Some(product.saturating_mul(factor))
        })
    }
}

/// Returns the type to which a pointer type points, without `const`; `None` if `ty` is not a pointer type.
pub fn pointed(ty: &str) -> Option<&str> {
    ty.strip_suffix('*').map(|ty| ty.trim().strip_prefix("const ").unwrap_or(ty).trim())
}

/// Returns the numeric type that corresponds to a C type; enums have 32 bits. Returns `None` for pointers and handles.
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

/// Returns true for C types whose values are opaque handles.
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

/// Returns true for struct types of the HIP headers.
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
    /// Returns the type of the result that the function writes through this pointer. Returns `None` if the result is a
    /// struct, or if the parameter is not a pointer.
    pub fn gives(&self) -> Option<HipReadType> {
        match pointed(self.ty)? {
            "char" => Some(HipReadType::Text),
            "const char*" | "char*" => Some(HipReadType::TextAt),
            "void" => Some(HipReadType::Number(ScalarType::U64)),
            of if is_struct(of) => None,
            of => Some(scalar(of).map_or(HipReadType::Pointer, HipReadType::Number)),
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
            ("in", size) => HipRole::In(size.map(HipSize::parse)),
            ("keeps", None) => HipRole::Keeps,
            ("out", size) => HipRole::Out(size.map(HipSize::parse)),
            ("inout", None) => HipRole::InOut,
            ("at", None) => HipRole::At,
            ("reads", Some(size)) => HipRole::Reads(HipSize::parse(size)),
            ("writes", Some(size)) => HipRole::Writes(HipSize::parse(size)),
            ("sets", Some(size)) => {
                let mut parts = size.split(';');
                let (value, element) = (parts.next()?, parts.next()?.parse().ok()?);
                HipRole::Sets { value, element, bytes: HipSize::parse(parts.next()?) }
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

    /// Returns the name of the function.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns the index of the first parameter through which the function returns a result; `None` if the function
    /// returns only its status. The key `gives` of a step refers to this result.
    pub fn first_given(&self) -> Option<usize> {
        let gives = |p: &HipParameter| matches!(p.role, HipRole::Out(_) | HipRole::InOut);
        self.parameters.iter().position(gives)
    }
}

/// Returns the functions that the step `hip` can call, sorted by name.
pub fn hip_functions() -> &'static [HipFunction] {
    static ALL: OnceLock<Vec<HipFunction>> = OnceLock::new();
    ALL.get_or_init(|| hip_declarations(HIP_FUNCTIONS))
}

/// Returns the functions that have a verb of their own in cases, for example `hipMemcpyAsync`, sorted by name. The
/// modules of `calls` declare the effects of these functions.
pub fn hip_functions_of_steps() -> &'static [HipFunction] {
    static ALL: OnceLock<Vec<HipFunction>> = OnceLock::new();
    ALL.get_or_init(|| hip_declarations(HIP_FUNCTIONS_OF_STEPS))
}

/// Parses the declarations of functions in a table that has the format of `functions.txt`. Skips lines that are not
/// declarations.
pub fn hip_declarations(table: &'static str) -> Vec<HipFunction> {
    lines(table).filter_map(HipFunction::parse).collect()
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// Returns the declaration of a function; `None` if no step can call it. Functions that have a verb of their own are
/// included.
pub fn hip_declared(name: &str) -> Option<&'static HipFunction> {
    let of_steps = || hip_functions_of_steps().iter().find(|function| function.name() == name);
    hip_function(name).or_else(of_steps)
}

/// Returns the declaration of a function that the step `hip` can call; `None` for every other function.
pub fn hip_function(name: &str) -> Option<&'static HipFunction> {
    static BY_NAME: OnceLock<HashMap<&str, &HipFunction>> = OnceLock::new();
    let all = || hip_functions().iter().map(|function| (function.name(), function)).collect();
    BY_NAME.get_or_init(all).get(name).copied()
}

/// Returns the functions that a `hip` step needs in libamdhip64: only `function` itself, or an empty list if the step
/// cannot call it.
pub(crate) fn called(function: &str) -> &'static [&'static str] {
    hip_function(function).map_or(&[], |function| &function.names)
}

impl HipArg {
    /// Returns the number of a [`HipArg::Number`], or the number that the memory of a [`HipArg::Out`] contains before
    /// the call. Returns `None` for other arguments.
    pub fn number(&self) -> Option<u64> {
        match self {
            HipArg::Number(number) => Some(number.bits),
            HipArg::Out { before, .. } => Some(*before),
            _ => None,
        }
    }

    /// Returns the bytes of the argument as a member of a struct. The function `address` maps a named object to its
    /// address. Nested members are aligned as in C.
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

    /// Returns the alignment of the argument in a struct, in bytes.
    pub fn alignment(&self) -> usize {
        match self {
            HipArg::Number(number) => number.ty.bytes(),
            HipArg::Bytes(_) => 1,
            HipArg::Struct(members) => members.iter().map(HipArg::alignment).max().unwrap_or(1),
            _ => 8,
        }
    }
}

/// An access to a buffer: true for a write, the place at which it begins, and its size in bytes.
pub type HipAccess<'a> = (bool, &'a BufferAddress, u64);

/// Returns all accesses to buffers that a call of `function` makes.
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

/// Returns the value of the parameter `name` in a call with these arguments; `None` if the function has no such
/// parameter or its argument is not a number.
pub fn number_of(function: &HipFunction, args: &[HipArg], name: &str) -> Option<u64> {
    let at = function.parameters.iter().position(|parameter| parameter.name == name)?;
    args.get(at)?.number()
}

/// Converts a kernel argument into a member of a struct.
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
    fn function_tables_are_complete_and_consistent() {
        for (functions, table) in
            [(hip_functions(), HIP_FUNCTIONS), (hip_functions_of_steps(), HIP_FUNCTIONS_OF_STEPS)]
        {
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
                // Every parameter whose type is a stream, an event or a graph must have a role.
                let thing = ["hipStream_t", "hipEvent_t", "hipGraph_t", "hipGraphExec_t"];
                let has_role = !matches!(parameter.role, HipRole::Value);
                assert!(has_role || !thing.contains(&parameter.ty), "{place}: {name}");
            }
        }
    }
}
