//! Prints the arguments of kernels as C++.

use plan::{Arg, ScalarType};

use crate::{
    form::Form,
    literal::{text, value},
    names::NameKind,
    printer::Printer,
};

impl Printer<'_> {
    /// Returns the arguments of a kernel as C++, separated by commas. In a [`Form::Hipcc`] program, pointers are cast
    /// to the kernel's parameter types. For struct arguments, first prints the declarations of variables that contain
    /// the structs.
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
                    let name = self.names.fresh(NameKind::Value, "argument");
                    let (ty, of_member) = (value_type(arg), self.initial(arg));
                    self.line(format!("const {ty} {name} = {of_member};"));
                    name
                }
                (None, _) => value(arg),
            });
        }
        text.join(", ")
    }

    /// Returns the compiler options of a kernel that the case defines, as C++ string literals, separated by commas;
    /// `None` if the kernel has no options.
    pub(crate) fn options(&self, kernel: &str) -> Option<String> {
        let options = &self.plan.own_kernels.get(kernel)?.options;
        let texts: Vec<_> = options.iter().map(|option| text(option)).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Returns the initialiser of the variable that holds an argument.
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

/// Returns a C++ type that can store the bits of a number. For 16-bit floats, the type is `uint16_t`.
fn storage_type(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::F16 | ScalarType::Bf16 => "uint16_t",
        ty => ty.cpp(),
    }
}

/// Returns the parameter types of a kernel as the kernel's source code spells them. Returns an empty list if `source`
/// does not contain the kernel.
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

/// Returns the C++ type of an argument that is passed by value. The type can declare a variable or a struct member.
fn value_type(arg: &Arg) -> String {
    let members = |members: &[Arg]| {
        let member = |(index, arg): (usize, &Arg)| match arg {
            Arg::Bytes(bytes) => format!("unsigned char m{index}[{}];", bytes.len()),
            Arg::Address(_) | Arg::Input(_) | Arg::Number(_) | Arg::Struct(_) => {
                format!("{} m{index};", value_type(arg))
            }
        };
        let members: Vec<_> = members.iter().enumerate().map(member).collect();
        format!("struct {{ {} }}", members.join(" "))
    };
    match arg {
        Arg::Address(_) | Arg::Input(_) => "void*".to_owned(),
        Arg::Number(number) => storage_type(number.ty).to_owned(),
        Arg::Struct(inner) => members(inner),
        Arg::Bytes(_) => members(std::slice::from_ref(arg)),
    }
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
