//! Prints the formulas in the field `computes` of kernels that the case defines, as C++ for the host. Conversions and
//! roundings are explicit, so that the result does not depend on the compiler.

use std::collections::BTreeSet;

use plan::{
    Arg, BinaryOperator, Expr, Formula, MathFunction, Plan, ScalarType, common_type, promoted_type,
};

use crate::{
    expected_names::{as_elements, expected_bytes_of},
    literal::literal,
    names::{NameKind, Names},
};

/// Returns the formulas that the case gives for a kernel; an empty list if it gives none.
pub(crate) fn formulas(plan: &Plan, kernel: &str) -> Vec<Formula> {
    let Some(own) = plan.own_kernels.get(kernel) else { return Vec::new() };
    let parameters = own.parameters.as_deref().unwrap_or_default();
    // An invalid plan has already been refused, so each formula can be parsed.
    own.computes.iter().filter_map(|text| Formula::parse(text, parameters).ok()).collect()
}

/// Returns the lines of C++ that compute what a launch with `items` work-items writes to the buffers for which
/// `follows` returns true.
pub(crate) fn on_host(
    plan: &Plan,
    names: &mut Names,
    kernel: &str,
    (items, args): (u64, &[Arg]),
    follows: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let formulas = formulas(plan, kernel);
    let own = plan.own_kernels.get(kernel).and_then(|own| own.parameters.as_deref());
    let args = &plan::flat_args(own.unwrap_or_default(), args);
    let out = |formula: &Formula| args.get(formula.out).and_then(Arg::place);
    let written: BTreeSet<&str> =
        formulas.iter().filter_map(out).map(|place| place.buffer.as_str()).collect();
    let mut lines = Vec::new();
    let mut before = BTreeSet::new();
    for formula in &formulas {
        let Some(place) = out(formula).filter(|place| follows(&place.buffer)) else { continue };
        let index = names.fresh(NameKind::Loop, "i");
        let mut text = Text {
            formula,
            names,
            args,
            items,
            item: index.clone(),
            written: &written,
            before: BTreeSet::new(),
            sums: 0,
        };
        let (count, at) = (text.expr(&formula.count), text.expr(&formula.at));
        let value = text.to(&formula.value, formula.element);
        before.append(&mut text.before);
        let target = as_elements(names, place, formula.element.cpp());
        lines.push(format!("for (uint32_t {index} = 0; {index} < {count}; {index}++)"));
        lines.push(format!("  {target}[{at}] = {value};"));
        names.release(&index);
    }
    if !before.is_empty() {
        let copies = before.iter().map(|buffer| {
            let want = expected_bytes_of(names, buffer);
            format!("  auto before_{want} = {want};")
        });
        let copies: Vec<String> = copies.collect();
        lines = lines.into_iter().map(|line| format!("  {line}")).collect();
        lines.splice(0..0, copies);
        lines.insert(0, "{".to_owned());
        lines.push("}".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests;

struct Text<'t> {
    formula: &'t Formula,
    names: &'t mut Names,
    args: &'t [Arg],
    items: u64,
    item: String,
    /// Buffers that the launch writes. If a formula reads such a buffer, it uses the bytes that the buffer had before
    /// the launch.
    written: &'t BTreeSet<&'t str>,
    before: BTreeSet<String>,
    sums: usize,
}

impl Text<'_> {
    fn type_of(&self, expr: &Expr) -> ScalarType {
        self.formula.type_of(expr).unwrap_or(ScalarType::I32)
    }

    /// Returns an expression as C++, converted to this type.
    fn to(&mut self, expr: &Expr, ty: ScalarType) -> String {
        let text = self.expr(expr);
        if self.type_of(expr) == ty { text } else { format!("{}({text})", ty.cpp()) }
    }

    fn expr(&mut self, expr: &Expr) -> String {
        let ty = self.type_of(expr);
        match expr {
            Expr::Literal(number) => literal(*number),
            Expr::Item => self.item.clone(),
            Expr::Items => format!("{}u", self.items),
            Expr::Bound(depth) => format!("{}_k{depth}", self.item),
            Expr::Number(index) => match self.args.get(*index) {
                Some(Arg::Number(number)) => literal(*number),
                _ => String::new(),
            },
            Expr::Element(index, at) => {
                let at = self.expr(at);
                let Some(place) = self.args.get(*index).and_then(Arg::place) else {
                    return String::new();
                };
                let elements = as_elements(self.names, place, ty.cpp());
                let elements = match self.written.contains(place.buffer.as_str()) {
                    true => {
                        self.before.insert(place.buffer.clone());
                        elements.replacen("want_", "before_want_", 1)
                    }
                    false => elements,
                };
                format!("{elements}[{at}]")
            }
            Expr::Unary('!', inner) => format!("int32_t(!{})", self.expr(inner)),
            Expr::Unary(sign, inner) => {
                let computed = computed(ty);
                let text = self.to(inner, computed);
                let text = format!("{sign}({text})");
                if computed == ty { format!("({text})") } else { format!("{}({text})", ty.cpp()) }
            }
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b, ty),
            Expr::Conditional(condition, a, b) => {
                let condition = self.expr(condition);
                format!("({condition} ? {} : {})", self.to(a, ty), self.to(b, ty))
            }
            Expr::Cast(to, inner) => format!("{}({})", to.cpp(), self.expr(inner)),
            Expr::Call(function, args) => {
                let computed = computed(ty);
                let args: Vec<String> = args.iter().map(|arg| self.to(arg, computed)).collect();
                let of = computed.cpp();
                let text = match function {
                    MathFunction::Fma => format!("std::fma({})", args.join(", ")),
                    MathFunction::Sqrt => format!("std::sqrt({})", args[0]),
                    MathFunction::Abs if ty.is_signed() => format!("std::abs({})", args[0]),
                    MathFunction::Abs => args[0].clone(),
                    // If neither argument is less than the other, `std::min` returns its first argument, so the order
                    // matters.
                    MathFunction::Min => format!("std::min<{of}>({}, {})", args[1], args[0]),
                    MathFunction::Max => format!("std::max<{of}>({}, {})", args[1], args[0]),
                };
                if computed == ty { text } else { format!("{}({text})", ty.cpp()) }
            }
            Expr::Sum { count, value } => {
                let count = self.expr(count);
                let variable = format!("{}_k{}", self.item, self.sums);
                self.sums += 1;
                let next = self.to(value, ty);
                self.sums -= 1;
                let computed = computed(ty).cpp();
                let of = ty.cpp();
                format!(
                    "[&] {{ {of} sum = 0; for (uint32_t {variable} = 0; {variable} < {count}; {variable}++) \
                     sum = {of}({computed}(sum) + {computed}({next})); return sum; }}()"
                )
            }
        }
    }

    fn binary(&mut self, operator: BinaryOperator, a: &Expr, b: &Expr, ty: ScalarType) -> String {
        let sign = operator.sign();
        match operator {
            BinaryOperator::LogicalAnd | BinaryOperator::LogicalOr => {
                format!("int32_t({} {sign} {})", self.expr(a), self.expr(b))
            }
            BinaryOperator::Shl | BinaryOperator::Shr => {
                format!("({} {sign} {})", self.to(a, ty), self.expr(b))
            }
            _ => {
                let both = common_type(self.type_of(a), self.type_of(b)).unwrap_or(ty);
                let computed = computed(both);
                let operand = |text: &mut Self, expr: &Expr| {
                    let text = text.to(expr, both);
                    if computed == both { text } else { format!("{}({text})", computed.cpp()) }
                };
                let text = format!("({} {sign} {})", operand(self, a), operand(self, b));
                if computed == promoted_type(ty) && !operator.compares() {
                    text
                } else {
                    format!("{}{text}", ty.cpp())
                }
            }
        }
    }
}

/// Returns the type in which numbers of type `ty` are computed. 16-bit floats are computed as 32-bit floats, and the
/// result is rounded once.
fn computed(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::F16 | ScalarType::Bf16 => ScalarType::F32,
        ty => ty,
    }
}
