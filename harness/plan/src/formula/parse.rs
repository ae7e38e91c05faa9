use super::{BinaryOperator, Expr, Formula, MathFunction, type_of, types};
use crate::{Choice, KernelParameter, KernelParameterKind, Scalar, ScalarType, flat_parameters};

const MAX_DEPTH: usize = 60;

/// Maximum number of tokens in a formula. The limit bounds the depth of recursion, because a chain of operators such as
/// `1 + 1 + 1` also results in nested expressions.
const MAX_TOKENS: usize = 2000;

pub(super) fn formula(text: &str, parameters: &[KernelParameter]) -> Result<Formula, String> {
    let parameters = &flat_parameters(parameters);
    let tokens = tokens(text)?;
    if tokens.len() > MAX_TOKENS {
        return Err(format!("the formula has more than {MAX_TOKENS} words, numbers and signs"));
    }
    let mut parser = Parser { tokens, at: 0, parameters, bound: Vec::new(), depth: 0 };
    if let Some(taken) = parameters.iter().find(|p| ["i", "items"].contains(&p.name.as_str())) {
        let name = &taken.name;
        return Err(format!("`{name}` is reserved in formulas; rename the parameter"));
    }
    let name = parser.word()?;
    let out = parser.parameter(&name)?;
    let types = types(parameters);
    let element = match (&parameters[out].kind, types[out]) {
        (KernelParameterKind::Pointer { only_read: true, .. }, _) => {
            return Err(format!("`{name}` points to const and cannot be written"));
        }
        (KernelParameterKind::Pointer { .. }, Some(element)) => element,
        _ => return Err(format!("`{name}` is not a pointer to numbers")),
    };
    parser.expect("[")?;
    let at = parser.expr()?;
    parser.expect("]")?;
    parser.expect("=")?;
    let value = parser.expr()?;
    let count = if parser.eat("for") {
        parser.expect("i")?;
        parser.expect("<")?;
        parser.expr()?
    } else {
        Expr::Items
    };
    if let Some(token) = parser.tokens.get(parser.at) {
        return Err(format!("unexpected `{token}` after the formula"));
    }
    if type_of(&at, &types)?.is_float() || type_of(&count, &types)?.is_float() {
        return Err("indices and bounds are whole numbers".to_owned());
    }
    type_of(&value, &types)?;
    Ok(Formula { out, element, at, value, count, types })
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if first.is_ascii_alphabetic() || first == '_' {
            // Names may contain dots, because a dot separates a struct from its member.
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            rest.find(|c| !part(c)).unwrap_or(rest.len())
        } else if first.is_ascii_digit() || first == '.' {
            end_of_number(rest)
        } else {
            let signs = BinaryOperator::ALL.iter().map(|(sign, ..)| *sign);
            let signs = signs.chain(["[", "]", "(", ")", ",", "=", "?", ":", "~", "!"]);
            let longest = signs.filter(|sign| rest.starts_with(sign)).map(str::len).max();
            longest.ok_or_else(|| format!("`{first}` is not part of a formula"))?
        };
        found.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    Ok(found)
}

fn end_of_number(text: &str) -> usize {
    let mut before = ' ';
    let hex = text.starts_with("0x");
    text.find(|c: char| {
        let sign = (c == '-' || c == '+') && matches!(before, 'e' | 'E') && !hex;
        before = c;
        !(c.is_ascii_alphanumeric() || c == '.' || sign)
    })
    .unwrap_or(text.len())
}

struct Parser<'p> {
    tokens: Vec<String>,
    at: usize,
    parameters: &'p [KernelParameter],
    /// Variables of the sums that enclose the current expression, outermost first.
    bound: Vec<String>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn eat(&mut self, token: &str) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |found| format!("`{found}`"));
        Err(format!(
            "expected `{token}` before {found}, for example `out[i] = in[i] * 2 for i < n`"
        ))
    }

    fn word(&mut self) -> Result<String, String> {
        let word =
            self.peek().filter(|t| t.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
        let word = word.ok_or("expected a name")?.to_owned();
        self.at += 1;
        Ok(word)
    }

    fn parameter(&self, name: &str) -> Result<usize, String> {
        let found = self.parameters.iter().position(|p| p.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.parameters.iter().map(|p| format!("`{}`", p.name)).collect();
            let is_index = ["blockIdx", "threadIdx", "blockDim", "hipBlockIdx", "hipThreadIdx"];
            let what = format!("the kernel has no parameter `{name}`");
            if is_index.iter().any(|index| name.starts_with(index)) {
                return format!(
                    "{what}; `i` is the index of the element, as in `out[i] = in[i] for i < n`"
                );
            }
            match names.is_empty() {
                true => format!("{what}; it has no parameters"),
                false => format!("{what}; it has {}", names.join(", ")),
            }
        })
    }

    fn expr(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the formula is nested too deeply".to_owned());
        }
        let condition = self.binary(1)?;
        let expr = if self.eat("?") {
            let a = self.expr()?;
            self.expect(":")?;
            Expr::Conditional(Box::new(condition), Box::new(a), Box::new(self.expr()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn binary(&mut self, least: u8) -> Result<Expr, String> {
        let mut left = self.unary()?;
        loop {
            let found = BinaryOperator::ALL.iter().find(|(sign, ..)| self.peek() == Some(sign));
            let Some((_, operator, binds)) = found.filter(|(.., binds)| *binds >= least) else {
                return Ok(left);
            };
            self.at += 1;
            let right = self.binary(binds + 1)?;
            left = Expr::Binary(*operator, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Result<Expr, String> {
        for sign in ['-', '~', '!'] {
            if self.eat(&sign.to_string()) {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err("the formula is nested too deeply".to_owned());
                }
                let inner = self.unary()?;
                self.depth -= 1;
                return Ok(Expr::Unary(sign, Box::new(inner)));
            }
        }
        if self.eat("(") {
            let inner = self.expr()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let token = self.peek().ok_or("the formula ends too early")?.to_owned();
        if token.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            self.at += 1;
            return literal(&token).map(Expr::Literal);
        }
        let name = self.word().map_err(|_| format!("`{token}` found where a value is expected"))?;
        self.named(&name)
    }

    fn named(&mut self, name: &str) -> Result<Expr, String> {
        if let Some(at) = self.bound.iter().rposition(|bound| bound == name) {
            return Ok(Expr::Bound(at));
        }
        match name {
            "i" => return Ok(Expr::Item),
            "items" => return Ok(Expr::Items),
            "sum" if self.peek() == Some("(") => return self.sum(),
            _ => {}
        }
        if self.peek() == Some("(") {
            if let Some((_, ty)) = ScalarType::ALL.iter().find(|(word, _)| *word == name) {
                let [inner] =
                    self.arguments(name)?.try_into().map_err(|_| wrong_argument_count(name, 1))?;
                return Ok(Expr::Cast(*ty, Box::new(inner)));
            }
            let known = MathFunction::ALL.iter().find(|(known, ..)| *known == name);
            let (_, function, takes) = known.ok_or_else(|| {
                let names = MathFunction::ALL.map(|(name, ..)| name).join("`, `");
                format!("unknown function `{name}`; available are the types, `sum`, `{names}`")
            })?;
            let arguments = self.arguments(name)?;
            if arguments.len() != *takes {
                return Err(wrong_argument_count(name, *takes));
            }
            return Ok(Expr::Call(*function, arguments));
        }
        let index = self.parameter(name)?;
        match &self.parameters[index].kind {
            KernelParameterKind::Number { .. } => Ok(Expr::Number(index)),
            KernelParameterKind::Pointer { .. } => {
                self.expect("[")?;
                let at = self.expr()?;
                self.expect("]")?;
                Ok(Expr::Element(index, Box::new(at)))
            }
            KernelParameterKind::Struct { .. } | KernelParameterKind::Other => Err(format!(
                "`{name}` is not a number, a pointer or a plain struct of these; pass what the formula needs as numbers, \
                 or omit `computes` and compare with `equal`"
            )),
        }
    }

    fn arguments(&mut self, name: &str) -> Result<Vec<Expr>, String> {
        self.expect("(")?;
        let mut found = vec![self.expr()?];
        while self.eat(",") {
            found.push(self.expr()?);
        }
        self.expect(")").map_err(|why| format!("{why} (in `{name}`)"))?;
        Ok(found)
    }

    /// Parses `(k < count, value)`. The caller has already consumed the word `sum`.
    fn sum(&mut self) -> Result<Expr, String> {
        self.expect("(")?;
        let name = self.word()?;
        self.expect("<")?;
        let count = Box::new(self.binary(8)?);
        self.expect(",")?;
        self.bound.push(name);
        let value = Box::new(self.expr()?);
        self.bound.pop();
        self.expect(")")?;
        Ok(Expr::Sum { count, value })
    }
}

fn wrong_argument_count(name: &str, takes: usize) -> String {
    format!("`{name}` takes {takes} value{}", if takes == 1 { "" } else { "s" })
}

/// Parses a number as C does: `1` is an `int`, `1u` is unsigned, `1.5` a `double` and `1.5f` a `float`.
fn literal(token: &str) -> Result<Scalar, String> {
    let hex = token.starts_with("0x");
    if !hex && token.contains(['.', 'e', 'E']) {
        let (ty, digits) = match token.strip_suffix(['f', 'F']) {
            Some(digits) => (ScalarType::F32, digits),
            None => (ScalarType::F64, token),
        };
        return Scalar::parse(ty, digits);
    }
    let digits = token.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = &token[digits.len()..];
    let mixed = suffix.contains("lL") || suffix.contains("Ll");
    let suffix = suffix.to_ascii_lowercase();
    if mixed || !["", "u", "l", "ul", "lu", "ll", "ull", "llu"].contains(&&*suffix) {
        return Err(format!("invalid number `{token}`"));
    }
    // C reads integers with a leading zero as octal.
    if digits.len() > 1
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && digits.starts_with('0')
    {
        return Err(format!("`{token}` is octal in C; drop the leading 0"));
    }
    use ScalarType::{I32, I64, U32, U64};
    let types: &[ScalarType] = match (suffix.contains('u'), suffix.contains('l')) {
        (true, true) => &[U64],
        (true, false) => &[U32, U64],
        (false, true) => &[I64, U64],
        // In C, a decimal literal without suffix never has an unsigned type.
        (false, false) if hex => &[I32, U32, I64, U64],
        (false, false) => &[I32, I64],
    };
    let fitting = types.iter().find_map(|ty| Scalar::parse(*ty, digits).ok());
    fitting.ok_or_else(|| format!("invalid number `{token}`"))
}
