//! Kernel arguments in C++.

use plan::{Arg, Plan, Scalar, ScalarType};

use crate::{
    names::Kind,
    printer::{Form, Printer},
};

impl Printer<'_> {
    /// The arguments of a kernel, with the types that it has where it is part of the program. Structs get variables.
    pub(crate) fn arguments(&mut self, kernel: &str, args: &[Arg]) -> String {
        let types = match self.form_of(kernel) {
            Form::Hipcc => parameter_types(self.plan.kernels.get(kernel).map_or("", |s| s), kernel),
            Form::Hiprtc => Vec::new(),
        };
        let mut text = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            text.push(match (arg.place(), types.get(index)) {
                (Some(place), Some(ty)) => {
                    format!("reinterpret_cast<{ty}>({})", self.place(place))
                }
                (Some(place), None) => self.place(place),
                (None, _) if matches!(arg, Arg::Struct(_) | Arg::Bytes(_)) => {
                    let name = self.names.fresh(Kind::Value, "argument");
                    let (ty, of_member) = (self.value_type(arg), self.initial(arg));
                    self.line(format!("const {ty} {name} = {of_member};"));
                    name
                }
                (None, _) => value(arg),
            });
        }
        text.join(", ")
    }

    /// The options of a kernel's own, as texts between commas; none where it has none.
    pub(crate) fn options(&self, kernel: &str) -> Option<String> {
        let options = &self.plan.own_kernels.get(kernel)?.options;
        let texts: Vec<_> = options.iter().map(|option| format!("{option:?}")).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// The type of an argument by value, as a member of a struct has it.
    fn value_type(&self, arg: &Arg) -> String {
        let members = |members: &[Arg]| {
            let member = |(index, arg): (usize, &Arg)| match arg {
                Arg::Bytes(bytes) => format!("unsigned char m{index}[{}];", bytes.len()),
                Arg::Address(_) | Arg::Input(_) | Arg::Number(_) | Arg::Struct(_) => {
                    format!("{} m{index};", self.value_type(arg))
                }
            };
            let members: Vec<_> = members.iter().enumerate().map(member).collect();
            format!("struct {{ {} }}", members.join(" "))
        };
        match arg {
            Arg::Address(_) | Arg::Input(_) => "void*".to_owned(),
            Arg::Number(number) => by_bits(number.ty).to_owned(),
            Arg::Struct(inner) => members(inner),
            Arg::Bytes(_) => members(std::slice::from_ref(arg)),
        }
    }

    /// What such a variable holds.
    fn initial(&mut self, arg: &Arg) -> String {
        match arg {
            Arg::Address(place) | Arg::Input(place) => self.place(place),
            Arg::Number(_) => value(arg),
            Arg::Struct(members) => {
                let members: Vec<_> = members.iter().map(|member| self.initial(member)).collect();
                format!("{{{}}}", members.join(", "))
            }
            Arg::Bytes(bytes) => {
                let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
                format!("{{{}}}", bytes.join(", "))
            }
        }
    }
}

/// Whether an argument keeps its bytes only where the program hands over pointers to it.
fn needs_pointer(arg: &Arg) -> bool {
    match arg {
        Arg::Struct(_) | Arg::Bytes(_) => true,
        Arg::Number(number) => matches!(number.ty, ScalarType::F16 | ScalarType::Bf16),
        Arg::Address(_) | Arg::Input(_) => false,
    }
}

/// Whether a kernel of the case's own must be compiled at run time: by options of its own, or because of what it is given.
pub(crate) fn needs_module(plan: &Plan, kernel: &str) -> bool {
    let options = plan.own_kernels.get(kernel).is_some_and(|own| !own.options.is_empty());
    options
        || plan.steps().iter().any(|step| match step.call.work() {
            plan::Call::Launch { kernel: name, args, .. } => {
                name == kernel && args.iter().any(needs_pointer)
            }
            _ => false,
        })
}

/// The type of a variable with these bits.
fn by_bits(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::F16 | ScalarType::Bf16 => "uint16_t",
        ty => ty.cpp(),
    }
}

/// A number that is handed over: of 16-bit floats the bits, which any compiler takes.
pub(crate) fn value(arg: &Arg) -> String {
    match arg {
        Arg::Number(Scalar { ty: ScalarType::F16 | ScalarType::Bf16, bits }) => {
            format!("uint16_t({bits:#x})")
        }
        Arg::Number(number) => literal(*number),
        Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => String::new(),
    }
}

/// A number of its type.
pub(crate) fn literal(number: Scalar) -> String {
    let of = number.as_f64();
    let ty = number.ty;
    match ty {
        ScalarType::U32 => format!("{number}u"),
        ScalarType::U64 => format!("uint64_t({number}u)"),
        // The least number has no literal.
        ScalarType::I64 => format!("int64_t({:#x}u)", number.bits),
        ScalarType::I32 => format!("int32_t({:#x}u)", number.bits),
        ScalarType::I8 | ScalarType::U8 | ScalarType::I16 | ScalarType::U16 => {
            format!("{}({number})", ty.cpp())
        }
        ScalarType::F32 if of.is_finite() => format!("{:?}f", of as f32),
        ScalarType::F64 if of.is_finite() => format!("{of:?}"),
        _ if of.is_nan() => format!("{}(NAN)", ty.cpp()),
        _ if of.is_infinite() => {
            format!("{}({}INFINITY)", ty.cpp(), if of < 0.0 { "-" } else { "" })
        }
        // 16 bits, of which every number is one of 32.
        _ => format!("{}({:?}f)", ty.cpp(), of as f32),
    }
}

/// Types of a kernel's parameters, as its source spells them; empty where the source is not understood.
fn parameter_types(source: &str, kernel: &str) -> Vec<String> {
    let Some(start) = source.find(&format!("{kernel}(")) else { return Vec::new() };
    let rest = &source[start + kernel.len() + 1..];
    let list = rest.split(')').next().unwrap_or_default();
    list.split(',')
        .map(|parameter| {
            let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            parameter.trim().trim_end_matches(name).replace("__restrict__", "").trim().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_types_are_read_from_the_source() {
        let check = |source: &str, expected: &[&str]| {
            assert_eq!(parameter_types(source, "k"), expected, "{source}");
        };
        check(
            "__global__ void k(unsigned int* dst, const float* src,\n  unsigned int n) {}",
            &["unsigned int*", "const float*", "unsigned int"],
        );
        check("void other(int a) {}", &[]);
    }
}
