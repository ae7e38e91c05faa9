//! Arithmetic with whole numbers, after matrix values have been substituted, for example `$n * 4 + 1`.

/// Evaluates an expression of `+ - * / ( )` and unsigned numbers, decimal or hexadecimal (`0x40`). The suffixes `K` and
/// `M` of a decimal number mean KiB and MiB.
pub(crate) fn evaluate(text: &str) -> Result<u64, String> {
    let mut parser = Parser { rest: text.trim() };
    let value = parser.sum(0)?;
    if parser.rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("`{}` is not part of a number", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, c: char) -> bool {
        match self.rest.trim_start().strip_prefix(c) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self, depth: u32) -> Result<u64, String> {
        let mut value = self.product(depth)?;
        loop {
            if self.eat('+') {
                value = value.checked_add(self.product(depth)?).ok_or("the number is too large")?;
            } else if self.eat('-') {
                value = value.checked_sub(self.product(depth)?).ok_or("the number is negative")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: u32) -> Result<u64, String> {
        let mut value = self.factor(depth)?;
        loop {
            if self.eat('*') {
                value = value.checked_mul(self.factor(depth)?).ok_or("the number is too large")?;
            } else if self.eat('/') {
                value = value.checked_div(self.factor(depth)?).ok_or("division by zero")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self, depth: u32) -> Result<u64, String> {
        if depth > 32 {
            return Err("nested too deeply".into());
        }
        if self.eat('(') {
            let value = self.sum(depth + 1)?;
            return if self.eat(')') { Ok(value) } else { Err("a `)` is missing".into()) };
        }
        if let Some(hex) = self.rest.strip_prefix("0x") {
            return self.hexadecimal(hex);
        }
        let digits =
            self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(match self.rest {
                "" => "a number is missing".to_owned(),
                rest if rest.starts_with('-') => "the number is negative".to_owned(),
                rest => format!("`{rest}` is not a number"),
            });
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let value: u64 = number.parse().map_err(|_| "the number is too large".to_owned())?;
        let unit = if self.eat('K') {
            1 << 10
        } else if self.eat('M') {
            1 << 20
        } else {
            1
        };
        self.rest = self.rest.trim_start();
        value.checked_mul(unit).ok_or_else(|| "the number is too large".into())
    }

    /// Reads the digits after `0x`.
    fn hexadecimal(&mut self, digits: &'a str) -> Result<u64, String> {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let (number, rest) = digits.split_at(end);
        if number.is_empty() {
            return Err("`0x` needs hexadecimal digits".to_owned());
        }
        self.rest = rest.trim_start();
        u64::from_str_radix(number, 16).map_err(|_| "the number is too large".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[track_caller]
    fn check(text: &str, expected: Result<u64, &str>) {
        assert_eq!(evaluate(text), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn arithmetic() {
        check("64", Ok(64));
        check(" 2 + 3 * 4 ", Ok(14));
        check("(2+3)*4 - 1", Ok(19));
        check("64M", Ok(64 << 20));
        check("0x40 * 2", Ok(128));
        check("0xFFffFFffFFffFFff", Ok(u64::MAX));
        check("0x10000000000000000", Err("the number is too large"));
        check("0x", Err("`0x` needs hexadecimal digits"));
        check("0x1G", Err("`G` is not part of a number"));
        check("7 / 2", Ok(3));
        check("1/0", Err("division by zero"));
        check("1-2", Err("the number is negative"));
        check("-1", Err("the number is negative"));
        check("4K4", Err("`4` is not part of a number"));
        check("", Err("a number is missing"));
        check("a", Err("`a` is not a number"));
        check("99999999999999999999", Err("the number is too large"));
        check("(1", Err("a `)` is missing"));
        let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        check(&nested(32), Ok(1));
        check(&nested(33), Err("nested too deeply"));
    }
}
