//! Prints calls to HIP functions for which the plan has only the generic call `hip`, and checks of the values that the
//! functions return.

use plan::{HipArg, HipParameter, HipRead, HipReadType, HipRole, Step, hip_function, pointed};

use crate::{
    calls::HIP, checks::number_fits, helpers::Helper, literal::text, names::NameKind,
    printer::Printer,
};

/// Returns a C++ expression that reads a part of a value that a HIP function returned.
fn read(value: &str, HipRead { at, sort }: &HipRead) -> String {
    let at = if *at == 0 { String::new() } else { at.to_string() };
    match sort {
        HipReadType::Number(ty) => format!("{value}.as<{}>({at})", ty.cpp()),
        HipReadType::Text => {
            let plus = if at.is_empty() { String::new() } else { format!(" + {at}") };
            format!("std::string(reinterpret_cast<const char*>({value}.bytes{plus}))")
        }
        HipReadType::TextAt => format!("std::string({value}.as<const char*>({at}))"),
        HipReadType::Pointer => {
            format!("std::string({value}.as<void*>({at}) == nullptr ? \"null\" : \"set\")")
        }
    }
}

fn fits(value: &str, sort: HipReadType, wanted: &str) -> String {
    match sort {
        HipReadType::Number(_) => number_fits(value, wanted),
        HipReadType::Text | HipReadType::TextAt | HipReadType::Pointer => {
            format!("{value} == {}", text(wanted))
        }
    }
}

/// Returns a C++ expression that converts a value to text for a message. `to_string` prints character types as numbers.
fn shown(value: &str, sort: HipReadType) -> String {
    match sort {
        HipReadType::Number(_) => format!("std::to_string({value})"),
        HipReadType::Text | HipReadType::TextAt | HipReadType::Pointer => value.to_owned(),
    }
}

impl Printer<'_> {
    pub(crate) fn foreign(&mut self, step: &Step, function: &str, args: &[HipArg]) {
        let Some(known) = hip_function(function) else { return self.unsupported_call(step) };
        let parameters = known.parameters.iter();
        let args_in_cpp: Vec<_> =
            args.iter().zip(parameters).map(|(arg, p)| self.given_argument(arg, p)).collect();
        let call = format!("{function}({})", args_in_cpp.join(", "));
        if known.gives_text {
            let text = self.names.fresh(NameKind::Value, "text");
            self.line(format!("const std::string {text} = {call};"));
            return self.check_earlier_value(step, function, &text, HipReadType::Text);
        }
        let first = known.first_given();
        let value = first.and_then(|at| match &args[at] {
            HipArg::Out { name, .. } => {
                let sort = known.parameters[at].gives()?;
                Some((read(&self.name(NameKind::Given, name), &HipRead { at: 0, sort }), sort))
            }
            HipArg::Null
            | HipArg::Number(_)
            | HipArg::Text(_)
            | HipArg::Value(_)
            | HipArg::Stream(_)
            | HipArg::Event(_)
            | HipArg::Graph(_)
            | HipArg::Kernel(_)
            | HipArg::Place(_)
            | HipArg::Struct(_)
            | HipArg::Bytes(_) => None,
        });
        match value {
            Some((value, sort)) => {
                let got = shown(&value, sort);
                self.value(step, &call, HIP, function, &got, |wanted| fits(&value, sort, wanted));
            }
            None => self.status(step, &call, HIP),
        }
    }

    /// Prints the check of a value that an earlier call returned. `value` is a C++ expression for the value. Prints
    /// nothing if the step accepts any value.
    fn check_earlier_value(&mut self, step: &Step, function: &str, value: &str, sort: HipReadType) {
        let wanted = step.gives.as_ref().and_then(|by| by.at(self.version).cloned());
        let wanted = wanted.filter(|wanted| !wanted.iter().any(|one| one == "any"));
        let about = self.short.is_none_or(|short| short.is_about(step));
        let Some(wanted) = wanted.filter(|_| about) else { return };
        let conditions: Vec<String> =
            wanted.iter().map(|wanted| fits(value, sort, wanted)).collect();
        let (got, conditions) = (shown(value, sort), conditions.join(" || "));
        if self.short.is_some() {
            return self.short_value(function, &got, &wanted.join(" or "), &conditions);
        }
        self.need(Helper::ExpectValue);
        let wanted = text(&wanted.join(" or "));
        self.line(format!("expect_value(\"{function}\", {got}, {wanted}, {conditions});"));
    }

    pub(crate) fn check_value(
        &mut self,
        step: &Step,
        (of, function): (&str, &str),
        how: &HipRead,
        against: Option<&str>,
    ) {
        let value = read(&self.name(NameKind::Given, of), how);
        let Some(other) = against else {
            return self.check_earlier_value(step, function, &value, how.sort);
        };
        // Addresses are compared as numbers.
        let sort = match how.sort {
            HipReadType::Pointer => HipReadType::Number(plan::ScalarType::U64),
            sort @ (HipReadType::Number(_) | HipReadType::Text | HipReadType::TextAt) => sort,
        };
        let value = read(&self.name(NameKind::Given, of), &HipRead { at: how.at, sort });
        let other = read(&self.name(NameKind::Given, other), &HipRead { at: 0, sort });
        let (less, more) = match how.sort {
            HipReadType::Number(_) => ("less", "more"),
            HipReadType::Text | HipReadType::TextAt | HipReadType::Pointer => ("other", "other"),
        };
        let how = format!(
            "std::string({value} == {other} ? \"same\" : {value} < {other} ? \"{less}\" : \"{more}\")"
        );
        let word = self.names.fresh(NameKind::Value, "compared");
        self.line(format!("const std::string {word} = {how};"));
        self.check_earlier_value(step, function, &word, HipReadType::Text);
    }

    fn given_argument(&mut self, arg: &HipArg, parameter: &HipParameter) -> String {
        let HipParameter { ty, role, .. } = parameter;
        let behind = matches!(role, HipRole::In(_) | HipRole::Keeps | HipRole::Text);
        match arg {
            // Some functions are overloaded for other pointer types, so the type of the null pointer must be explicit.
            HipArg::Null if ty.ends_with("void*") => format!("static_cast<{ty}>(nullptr)"),
            HipArg::Null => "nullptr".to_owned(),
            HipArg::Number(number) if ty.contains(' ') => {
                format!("static_cast<{ty}>({number})")
            }
            HipArg::Number(number) => format!("{ty}({number})"),
            HipArg::Text(it) => text(it),
            HipArg::Value(name) if behind => {
                let of = pointed(ty).unwrap_or(ty);
                format!("{}.at<{of}>()", self.name(NameKind::Given, name))
            }
            HipArg::Value(name) => format!("{}.as<{ty}>()", self.name(NameKind::Given, name)),
            HipArg::Out { name, before } => {
                self.need(Helper::Given);
                let value = self.declare_created(NameKind::Given, name);
                if !self.declares(NameKind::Given, name) || *before != 0 {
                    self.line(format!("{value} = Given();"));
                }
                if *before != 0 {
                    self.line(format!("{value}.put<uint64_t>(0, {before});"));
                }
                // If the parameter points to const, memory for the value is needed nevertheless.
                let of = ty.strip_suffix('*').unwrap_or("void").trim();
                format!("{value}.at<{of}>()")
            }
            HipArg::Stream(name) => self.stream(name),
            HipArg::Event(name) => self.name(NameKind::Event, name),
            HipArg::Graph(name) => self.name(NameKind::Graph, name),
            HipArg::Kernel(name) => self.name(NameKind::Kernel, name),
            HipArg::Place(place) => self.place(place),
            HipArg::Struct(_) | HipArg::Bytes(_) => {
                let of = pointed(ty).unwrap_or(ty);
                let variable = self.names.fresh(NameKind::Value, "given");
                self.need(Helper::Given);
                self.line(format!("Given {variable};"));
                let mut at = 0;
                self.put_members(&variable, arg, &mut at);
                format!("{variable}.at<{of}>()")
            }
        }
    }

    /// Prints the statements that store the members of a struct in the C++ variable `variable`, starting at the byte
    /// `at`. Afterwards, `at` is the offset of the first byte after the members.
    fn put_members(&mut self, variable: &str, arg: &HipArg, at: &mut usize) {
        let value = match arg {
            HipArg::Struct(members) => {
                *at = at.next_multiple_of(arg.alignment());
                for member in members {
                    self.put_members(variable, member, at);
                }
                return;
            }
            HipArg::Bytes(bytes) => {
                for byte in bytes {
                    self.line(format!("{variable}.put<uint8_t>({at}, {byte});"));
                    *at += 1;
                }
                return;
            }
            HipArg::Number(number) => {
                *at = at.next_multiple_of(arg.alignment());
                self.line(format!("{variable}.put<{}>({at}, {number});", number.ty.cpp()));
                *at += number.ty.bytes();
                return;
            }
            HipArg::Null | HipArg::Text(_) | HipArg::Out { .. } => "nullptr".to_owned(),
            HipArg::Value(name) => format!("{}.as<void*>()", self.name(NameKind::Given, name)),
            HipArg::Stream(name) => self.stream(name),
            HipArg::Event(name) => self.name(NameKind::Event, name),
            HipArg::Graph(name) => self.name(NameKind::Graph, name),
            HipArg::Kernel(name) => self.name(NameKind::Kernel, name),
            HipArg::Place(place) => self.place(place),
        };
        *at = at.next_multiple_of(8);
        self.line(format!("{variable}.put<void*>({at}, {value});"));
        *at += 8;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn string_literals_are_escaped() {
        assert_eq!(super::text("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
